SELECT {part:now}
