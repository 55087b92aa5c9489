SELECT key, value FROM {prefix}_meta
