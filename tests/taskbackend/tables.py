"""What a database says of our tables, in words that can be compared: of two databases, and with the DDL."""

from tinyjobs.taskbackend import layout
from tinyjobs.taskbackend.vendors import find_vendor


def names_in(connection):
    """The names of our tables and indexes."""
    return set(schema(connection))


def made_by_ddl(connection):
    """The statements of the DDL by the name of what each makes."""
    statements = find_vendor(connection.vendor).statements
    return {layout._made_by(statement)[1]: statement.format for statement in statements.schema}


def schema(connection):
    """Every table and index of ours by name, with the text that made it, or all there is to say of it."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE 'tinyjobs%%' AND sql IS NOT NULL", ())
            return dict(cursor.fetchall())
        cursor.execute(
            """
            SELECT class.relname, class.relkind, class.reloptions, pg_get_indexdef(class.oid), (
                SELECT array_agg(concat_ws(
                    ' ', attname, format_type(atttypid, atttypmod), collname, attnotnull,
                    pg_get_expr(adbin, adrelid)
                ) ORDER BY attname)
                FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
                LEFT JOIN pg_collation ON pg_collation.oid = attcollation
                WHERE attrelid = class.oid AND attnum > 0 AND NOT attisdropped
            ), (
                SELECT array_agg(pg_get_constraintdef(oid) ORDER BY conname)
                FROM pg_constraint WHERE conrelid = class.oid AND contype <> 'n'
            )
            FROM pg_class AS class
            WHERE class.relname LIKE 'tinyjobs%%' AND class.relnamespace = current_schema()::regnamespace
                AND class.relkind IN ('r', 'i')
            """,
            (),
        )
        return {name: told for name, *told in cursor.fetchall()}
