INSERT INTO {tables}_meta (key, value) VALUES (%s::text, %s::text) ON CONFLICT (key) DO NOTHING
