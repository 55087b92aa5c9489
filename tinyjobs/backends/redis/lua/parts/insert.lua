-- uses: places
-- Adding jobs. `given` has a job's fields as texts. An instant that was asked for was read on the caller's clock. It is
-- moved onto this one if the two differ so much that it cannot be the way between them; a delay counts from here in any
-- case. Whoever adds a job has put its id into `index:all`.
local WORTH_MOVING = 0.5

local function here(instant)
    if math.abs(skew) < WORTH_MOVING then
        return instant
    end
    return exact(tonumber(instant) + skew)
end

local function refuse(id)
    return redis.error_reply('REFUSED the id ' .. id .. ' is taken by another job')
end

local function insert(given, payload)
    local job = {
        id = given.id, queue = given.queue, task = given.task, priority = given.priority, claims = '0',
        hand_backs = '0', key = given.key or '', expires_at = '',
    }
    local fields = {
        task = given.task, queue = given.queue, priority = given.priority, max_attempts = given.max_attempts,
        created_at = given.created_at, codec = given.codec, payload = payload, key = given.key,
        metadata = given.metadata, runs_after = given.runs_after, scheduled_for = given.scheduled_for,
    }
    line_up(fields, given.delay and exact(now + tonumber(given.delay)) or here(given.run_at))
    if given.expires_in then
        fields.expires_at = exact(now + tonumber(given.expires_in))
    elseif given.expires_at then
        fields.expires_at = here(given.expires_at)
    end
    write(job, fields)
    if given.key then
        redis.call('SET', P .. 'dedup:' .. given.key, given.id)
    end
    enter(job)
    add(P .. 'index:queue:' .. given.queue, 0, given.id)
end
