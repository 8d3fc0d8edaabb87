/* rs.autograd.gradcheck(f, inputs, options): gradients of a function against differences of its values, element by
 * element, as torch.autograd.gradcheck. Written in Lua on top of what lessons use themselves. */
#include "lua/internal.h"

static const char gradcheck_text[] =
    "local rs = ...\n"
    "local function call(f, inputs)\n"
    "  local outs = table.pack(f(table.unpack(inputs)))\n"
    "  local kept = {}\n"
    "  for i = 1, outs.n do\n"
    "    local out = outs[i]\n"
    "    if rs.is_tensor(out) and (out.dtype == 'float64' or out.dtype == 'float32') then kept[#kept + 1] = out end\n"
    "  end\n"
    "  return kept\n"
    "end\n"
    "local function values(t)\n"
    "  return t:numel() == 0 and {} or t:detach():to('cpu'):reshape({-1}):tolist()\n"
    "end\n"
    "local function add_at(t, i, amount)\n"
    "  local list = values(t)\n"
    "  list[i] = list[i] + amount\n"
    "  rs.no_grad(function() t:copy_(rs.tensor(list, { dtype = t.dtype }):reshape(t.shape)) end)\n"
    "end\n"
    "local function numeric(f, inputs, input, i, eps)\n"
    "  local function at(amount)\n"
    "    add_at(input, i, amount)\n"
    "    local lists = {}\n"
    "    for k, out in ipairs(call(f, inputs)) do lists[k] = values(out) end\n"
    "    return lists\n"
    "  end\n"
    "  local before = values(input)\n"
    "  local up, down = at(eps), at(-2 * eps)\n"
    "  rs.no_grad(function() input:copy_(rs.tensor(before, { dtype = input.dtype }):reshape(input.shape)) end)\n"
    "  for k, list in ipairs(up) do\n"
    "    for j = 1, #list do list[j] = (list[j] - down[k][j]) / (2 * eps) end\n"
    "  end\n"
    "  return up\n"
    "end\n"
    "local function one_hot(out, j)\n"
    "  local list = {}\n"
    "  for i = 1, out:numel() do list[i] = i == j and 1.0 or 0.0 end\n"
    "  return rs.tensor(list, { dtype = out.dtype, device = out.device }):reshape(out.shape)\n"
    "end\n"
    "return function(f, inputs, options)\n"
    "  options = options or {}\n"
    "  local eps, atol, rtol = options.eps or 1e-6, options.atol or 1e-5, options.rtol or 1e-3\n"
    "  if rs.is_tensor(inputs) then inputs = { inputs } end\n"
    "  for n, input in ipairs(inputs) do\n"
    "    if rs.is_tensor(input) and input.requires_grad then\n"
    "      local by_input = {}\n"
    "      for i = 1, input:numel() do by_input[i] = numeric(f, inputs, input, i, eps) end\n"
    "      for k, out in ipairs(call(f, inputs)) do\n"
    "        for j = 1, out.requires_grad and out:numel() or 0 do\n"
    "          local grad = rs.autograd.grad(out, input,\n"
    "            { grad_outputs = one_hot(out, j), retain_graph = true, allow_unused = true })\n"
    "          local list = grad and values(grad) or {}\n"
    "          for i = 1, input:numel() do\n"
    "            local got, expected = list[i] or 0, by_input[i][k][j]\n"
    "            if not (math.abs(got - expected) <= atol + rtol * math.abs(expected)) then\n"
    "              if options.raise_exception == false then return false end\n"
    "              rs.error('GradcheckError', string.format('output %d element %d by input %d element %d: '\n"
    "                .. 'numerical %.10g, analytical %.10g', k - 1, j - 1, n - 1, i - 1, expected, got))\n"
    "            end\n"
    "          end\n"
    "        end\n"
    "      end\n"
    "    end\n"
    "  end\n"
    "  return true\n"
    "end\n";

void
lua_open_gradcheck(lua_State *L)
{
    push_ringside(L);
    if (luaL_loadbufferx(L, gradcheck_text, sizeof gradcheck_text - 1, "=gradcheck", "t") != LUA_OK)
        lua_error(L);
    lua_pushvalue(L, -2);
    lua_call(L, 1, 1);
    note_help(L, "rs.autograd.gradcheck(f, inputs, {eps, atol, rtol})",
              "are the gradients of f those that differences of its values give? inputs of float64");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "gradcheck");
    lua_getfield(L, -2, "autograd");
    lua_insert(L, -2);
    lua_setfield(L, -2, "gradcheck");
    lua_pop(L, 2);
}
