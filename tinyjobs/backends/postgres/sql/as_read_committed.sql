-- What another process made while this one waited has to be seen, whatever the session's default.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED
