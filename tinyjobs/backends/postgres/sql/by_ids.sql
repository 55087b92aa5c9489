SELECT {columns} FROM {tables}_jobs WHERE id = ANY (ARRAY(SELECT json_array_elements_text(%s::json)))
