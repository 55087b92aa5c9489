-- How this connection has the file, and its name, which need not be a text. Reads settings alone.
SELECT
    (SELECT journal_mode FROM pragma_journal_mode),
    (SELECT synchronous FROM pragma_synchronous),
    (SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main')
