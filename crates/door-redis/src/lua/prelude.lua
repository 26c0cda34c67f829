-- What a script finds around it. Runs once in each state, before the script, and gives its globals and what guards it.
--
-- By design: Rust's functions never raise an error of their own, for Lua would see it as no text; they give false and a message, which
-- becomes an error here.
-- `chunk`: what errors call the script. `loading`: it is a library, which registers its functions before one of them is called.
local KEYS, ARGV, call, speak, load_text, line, libraries, chunk, loading = ...

local error, type, tostring, select, pcall, xpcall, setmetatable = error, type, tostring, select, pcall, xpcall, setmetatable
local concat, floor, globals = table.concat, math.floor, {}

-- An error with the script's own line before it.
local function raise(message)
    local at = line()
    error(at and chunk .. ':' .. at .. ': ' .. message or message, 0)
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

-- What a library has registered, in order.
local registered, named = {}, {}
local FLAGS = {
    ['no-writes'] = true, ['allow-oom'] = true, ['allow-stale'] = true, ['no-cluster'] = true, ['allow-cross-slot-keys'] = true,
}

local function wants(value, kind, message)
    if type(value) ~= kind then
        raise(message)
    end
end

local function flags_of(given)
    wants(given, 'table', 'flags argument to redis.register_function must be a table representing function flags')
    local flags = {}
    for _, flag in ipairs(given) do
        if not FLAGS[flag] then
            raise('unknown flag given')
        end
        flags[#flags + 1] = flag
    end
    return flags
end

-- The arguments of redis.register_function that have names.
local function by_names(given)
    wants(given, 'table', 'calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).')
    local own = { flags = {} }
    for key, value in pairs(given) do
        if key == 'function_name' then
            wants(value, 'string', 'function_name argument given to redis.register_function must be a string')
            own.name = value
        elseif key == 'description' then
            wants(value, 'string', 'description argument given to redis.register_function must be a string')
            own.description = value
        elseif key == 'callback' then
            wants(value, 'function', 'callback argument given to redis.register_function must be a function')
            own.callback = value
        elseif key == 'flags' then
            own.flags = flags_of(value)
        else
            wants(key, 'string', 'named argument key given to redis.register_function is not a string')
            raise('unknown argument given to redis.register_function')
        end
    end
    if not own.name then
        raise('redis.register_function must get a function name argument')
    end
    if not own.callback then
        raise('redis.register_function must get a callback argument')
    end
    return own
end

local function register(...)
    if not loading then
        raise('redis.register_function can only be called on FUNCTION LOAD command')
    end
    local own
    local count, first, second = select('#', ...), ...
    if count == 1 then
        own = by_names(first)
    elseif count == 2 then
        wants(first, 'string', 'first argument to redis.register_function must be a string')
        wants(second, 'function', 'second argument to redis.register_function must be a function')
        own = { name = first, callback = second, flags = {} }
    else
        raise('wrong number of arguments to redis.register_function')
    end
    if not own.name:find('^[%w_]+$') then
        raise('Library names can only contain letters, numbers, or underscores(_) and must be at least one character long')
    end
    if named[own.name:lower()] then
        raise('Function already exists in the library')
    end
    named[own.name:lower()] = own
    registered[#registered + 1] = own
end

-- While a library is loaded it can register and log, and nothing else. What it keeps of that does not call the database later, either.
local early, later = {}, {}
if loading then
    local own = { register_function = register }
    for _, name in ipairs({
        'log', 'LOG_DEBUG', 'LOG_VERBOSE', 'LOG_NOTICE', 'LOG_WARNING', 'REDIS_VERSION', 'REDIS_VERSION_NUM',
    }) do
        own[name] = redis[name]
    end
    early.redis = setmetatable({}, {
        __index = function(_, name)
            if own[name] == nil then
                raise('Script attempted to access nonexistent global variable \'' .. tostring(name) .. '\'')
            end
            return own[name]
        end,
        __newindex = function()
            error('Attempt to modify a readonly table', 2)
        end,
        __metatable = false,
    })
end

-- Ends the loading of a library; gives what calls this function of it.
local function called(name)
    local own = named[name:lower()]
    loading = false
    globals.redis, globals.server, globals.math = later.redis, later.redis, later.math
    return own and function()
        return own.callback(KEYS, ARGV)
    end
end

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
if loading then
    later.redis, later.math = redis, globals.math
    globals.redis, globals.server, globals.math = early.redis, nil, nil
else
    globals.KEYS, globals.ARGV = KEYS, ARGV
end

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
end, registered, called
