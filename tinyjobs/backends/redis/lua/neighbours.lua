-- uses: call
-- The ids on both sides of one in the order of a listing, the newer first; '' where there is none.
local newer = redis.call('ZRANGEBYLEX', P .. 'index:all', '(' .. header.id, '+', 'LIMIT', 0, 1)
local older = redis.call('ZREVRANGEBYLEX', P .. 'index:all', '(' .. header.id, '-', 'LIMIT', 0, 1)
return { newer[1] or '', older[1] or '' }
