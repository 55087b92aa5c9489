DELETE FROM {tables}_executions WHERE job_id = ANY (ARRAY(SELECT json_array_elements_text(%s::json)))
