SELECT {columns} FROM {prefix}_jobs WHERE id = %s
