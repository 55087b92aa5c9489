INSERT INTO {prefix}_meta (key, value) VALUES (%s, %s) ON CONFLICT (key) DO NOTHING
