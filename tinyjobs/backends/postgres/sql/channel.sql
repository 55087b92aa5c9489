SELECT {part:channel} FROM {tables}_meta AS meta WHERE meta.key = 'instance'
