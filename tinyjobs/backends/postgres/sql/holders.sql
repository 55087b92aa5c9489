SELECT {columns} FROM {tables}_jobs
WHERE active_key IN (
    SELECT {part:digest} FROM pg_catalog.json_array_elements_text(%s::pg_catalog.json) AS given (key)
)
