SELECT key, value FROM {tables}_meta
