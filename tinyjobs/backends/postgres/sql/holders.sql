SELECT {columns} FROM {tables}_jobs
WHERE active_key IN (
    SELECT {part:digest} FROM json_array_elements_text(%s::json) AS given (key)
)
