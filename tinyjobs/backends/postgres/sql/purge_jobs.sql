-- The rows were locked by the read before, so this waits for nobody.
DELETE FROM {tables}_jobs WHERE id = ANY (ARRAY(SELECT json_array_elements_text(%s::json)))
