SELECT {columns} FROM {tables}_jobs WHERE id = %s::text
