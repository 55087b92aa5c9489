SELECT pg_catalog.current_setting('server_encoding')
