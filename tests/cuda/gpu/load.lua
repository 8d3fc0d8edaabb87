-- All kernels are loaded when a device is opened: one value through it. `ringside run --trust --device cuda load.lua`
local rs = require "ringside"
rs.lesson { title = "loading", devices = 1 }
rs.check("a kernel runs", rs.ones({ 1000 }, { device = "device:0" }):sum():item() == 1000)
