-- What a script finds around it. Runs once in each state, before the script, and gives its globals and what guards it.
--
-- By design: Rust's functions never raise an error of their own, for Lua would see it as no text; they give false and a message, which
-- becomes an error here.
local KEYS, ARGV, call, speak, load_text, line, libraries = ...

local error, type, tostring, select, pcall, xpcall, setmetatable = error, type, tostring, select, pcall, xpcall, setmetatable
local concat, floor, globals = table.concat, math.floor, {}

-- An error with the script's own line before it.
local function raise(message)
    local at = line()
    error(at and 'user_script:' .. at .. ': ' .. message or message, 0)
end

local function unless_failed(done, ...)
    if done then
        return ...
    end
    raise((...))
end

local function checked(run)
    return function(...)
        return unless_failed(run(...))
    end
end

local function library(name, checks)
    local own = {}
    for key, value in pairs(libraries[name]) do
        own[key] = (checks and type(value) == 'function') and checked(value) or value
    end
    return own
end

local function copy(from)
    local own = {}
    for key, value in pairs(from) do
        own[key] = value
    end
    return own
end

local redis = library('redis', true)

function redis.call(...)
    local reply = call(...)
    if type(reply) == 'table' and reply.err then
        error(reply, 0)
    end
    return reply
end

function redis.pcall(...)
    return call(...)
end

function redis.error_reply(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then
        return { err = 'ERR wrong number or type of arguments' }
    end
    text = text:gsub('^%-', '')
    return { err = text:find(' ', 1, true) and text or 'ERR ' .. text }
end

function redis.status_reply(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then
        return { err = 'ERR wrong number or type of arguments' }
    end
    return { ok = text }
end

function redis.setresp(...)
    local version = ...
    if select('#', ...) ~= 1 then
        raise('redis.setresp() requires one argument.')
    end
    if version ~= 2 and version ~= 3 then
        raise('RESP version must be 2 or 3.')
    end
    speak(version == 3)
end

function redis.log(...)
    if select('#', ...) < 2 then
        raise('redis.log() requires two arguments or more.')
    end
    local level = ...
    if type(level) ~= 'number' then
        raise('First argument must be a number (log level).')
    end
    if level < 0 or level > 3 then
        raise('Invalid log level.')
    end
end

-- A script always replicates what it did.
function redis.replicate_commands()
    return true
end

function redis.set_repl() end

function redis.breakpoint()
    return false
end

function redis.debug() end

redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
redis.REPL_NONE, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_AOF, redis.REPL_ALL = 0, 2, 2, 1, 3

-- What a script calls by name. Whatever else there is stays out of its reach.
for _, name in ipairs({
    '_VERSION', 'assert', 'error', 'gcinfo', 'getmetatable', 'ipairs', 'next', 'pairs', 'pcall', 'rawequal', 'rawget', 'rawset',
    'select', 'setmetatable', 'tonumber', 'tostring', 'type', 'unpack', 'xpcall',
}) do
    globals[name] = _G[name]
end

globals.string, globals.table, globals.coroutine = copy(string), copy(table), copy(coroutine)
globals.math = copy(math)
for key, value in pairs(library('math', true)) do
    globals.math[key] = value
end
for _, name in ipairs({ 'cjson', 'cmsgpack', 'bit', 'struct', 'os' }) do
    if libraries[name] then
        globals[name] = library(name, true)
    end
end
globals.redis, globals.server = redis, redis
globals.KEYS, globals.ARGV = KEYS, ARGV

function globals.collectgarbage(what)
    return what == 'count' and gcinfo() or 0
end

local environment

function globals.loadstring(text, name)
    if type(text) ~= 'string' then
        error('bad argument #1 to \'loadstring\' (string expected)', 2)
    end
    return load_text(text, name or text, environment)
end

function globals.load(from, name)
    local parts = {}
    local part = from()
    while part ~= nil and part ~= '' do
        parts[#parts + 1] = part
        part = from()
    end
    return load_text(concat(parts), name, environment)
end

setmetatable(globals, {
    __index = function(_, name)
        error('Script attempted to access nonexistent global variable \'' .. tostring(name) .. '\'', 2)
    end,
})
environment = setmetatable({}, {
    __index = globals,
    __newindex = function()
        error('Attempt to modify a readonly table', 2)
    end,
    __metatable = false,
})
rawset(globals, '_G', environment)

-- Runs the script; gives whether it came to its end, and what it gave or the error and where it was.
local function described(problem)
    local text
    if type(problem) == 'table' then
        text = rawget(problem, 'err')
        text = type(text) == 'string' and text or 'ERR unknown error'
    else
        text = 'ERR ' .. tostring(problem)
    end
    return { err = text, line = line() }
end

local rawget = rawget

return environment, function(script)
    local done, value = xpcall(script, described)
    return done, value
end
