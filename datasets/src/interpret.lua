-- SPDX-License-Identifier: Apache-2.0
--
-- A program to be recorded: closures, coroutines, metatables, patterns, sorting, errors caught, recursion.
local seed = 7
local function random(n)
  seed = (seed * 16807) % 2147483647
  return seed % n
end

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({a[1] + b[1], a[2] + b[2]}, Vector) end
function Vector:length() return math.sqrt(self[1] ^ 2 + self[2] ^ 2) end

local sum = setmetatable({0, 0}, Vector)
for i = 1, 300 do sum = sum + setmetatable({i, random(10)}, Vector) end
print(string.format("%.3f", sum:length()))

local function walk(n)
  if n == 0 then return 0 end
  return 1 + walk(n - 1)
end
print(walk(150))

local words = {}
for i = 1, 200 do words[i] = string.rep(string.char(97 + random(26)), 1 + random(5)) .. random(100) end
table.sort(words, function(a, b) return a:reverse() < b:reverse() end)
print(words[1], words[100], words[200])

local count = {}
for letter, number in table.concat(words, " "):gmatch("(%a+)(%d+)") do
  count[#letter] = (count[#letter] or 0) + tonumber(number)
end
print(table.concat(count, " "))

local producer = coroutine.wrap(function()
  for i = 1, 100 do coroutine.yield(i * i) end
end)
local odd = 0
for value in producer do if value % 2 == 1 then odd = odd + value end end
print(odd)

local caught = 0
for i = 1, 40 do
  local ok = pcall(function() if i % 3 == 0 then error({i}) end return nil .. "" end)
  if not ok then caught = caught + 1 end
end
print(caught)

local sieve, primes = {}, 0
for i = 2, 1500 do
  if not sieve[i] then
    primes = primes + 1
    for k = i * i, 1500, i do sieve[k] = true end
  end
end
print(primes)
