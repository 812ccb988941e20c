"""What a name in a foreign Python file stands for, hidden from a screen that looks at names alone."""

import pytest
from python_texts import IEEE, LOAD_INLINE, SOFTMAX, TRITON, inline, module

from harness.screen.python_source import screen_python

DISGUISED = {
    "dynamic": {
        "a module by a walrus": module("(c := torch.cuda).Stream()"),
        "a module as an argument": module("(lambda m: m.Stream())(torch.cuda)"),
        "a module in a list": module("[torch.cuda][0].Stream()"),
        "a module as a default": module("def f(m=torch.cuda):\n    m.Stream()\nf()"),
        "a module in a class": module("self.c.Stream()", top="class A:\n    c = torch.cuda"),
        "a module unpacked": module("a, b = torch.cuda, 1\na.Stream()"),
        "a module with a type": module("a: object = torch.cuda\na.Stream()"),
        "a module in a loop": module("for c in (torch.cuda,):\n    c.Stream()"),
        "a module kept": module("return self.k.softmax(x, 1)", init="self.k = torch"),
        "a module for an extension": module("return g(torch, x)", top="def g(k, x):\n    return k.add(x, 1)"),
        "an alias with two meanings": module("c = torch.cuda\nc.Stream()\nimport math\nc = math"),
        "an import with two meanings": module("import math as c\nreturn x", top="import torch.cuda as c"),
        "an import given another meaning": module(top="import math\nmath = torch"),
        "an extension that is torch": module("return torch.softmax(x, 1)", top=LOAD_INLINE + "k = load_inline('k', "
                                             "'int x;')\nk = torch"),
        "an import that may be an extension": module("return F.softmax(x, 1)", top=LOAD_INLINE + "if 0:\n"
                                                     "    F = load_inline('k', 'int x;')"),
        "exec in an empty loop": module("exec('1')", top="for exec in ():\n    pass"),
        "exec that never is": module("exec('1')", top="if 0:\n    exec = 1"),
        "exec in the other branch": module(top="if 0:\n    exec = 1\nelse:\n    exec('1')"),
        "exec until it is deleted": module("exec('1')", top="exec = 1\ndel exec"),
        "exec before it is given": module(top="exec('1')\nexec = 1"),
        "exec of a class": module(top="class A:\n    exec('1')\n    exec = 2"),
        "a source that is a parameter": module(top=LOAD_INLINE + "S = 'int x;'\ndef f(S):\n    load_inline('k', S)"),
        "a source that is a class": module(top=LOAD_INLINE + "S = 'int x;'\nclass S:\n    pass\nload_inline('k', S)"),
        "a list of sources that grows": module(top=LOAD_INLINE + "S = ['int x;']\nS.append('fork();')\n"
                                               "load_inline('k', S)"),
        "a list of sources that changes": module(top=LOAD_INLINE + "S = ['int x;']\nS[0] = 'fork();'\n"
                                                 "load_inline('k', S)"),
        "a source that matches": module(top=LOAD_INLINE + "S = 'int x;'\nmatch 'fork();':\n    case S:\n        pass\n"
                                        "load_inline('k', S)"),
        "a source that is the rest": module(top=LOAD_INLINE + "S = 'int x;'\nmatch {}:\n    case {**S}:\n        pass\n"
                                            "load_inline('k', S)"),
        "a source that is what is left": module(top=LOAD_INLINE + "S = 'int x;'\nmatch []:\n    case [*S]:\n"
                                                "        pass\nload_inline('k', S)"),
    },
    "operator": {
        "on one's own device": module("return g(x)", top="def jit(f):\n    return f\n@jit\ndef g(x):\n"
                                      "    return torch.softmax(x, 1)"),
        "on a triton of one's own": module("return g(x)", top="class triton:\n    jit = staticmethod(lambda f: f)\n"
                                           "@triton.jit\ndef g(x):\n    return torch.softmax(x, 1)"),
        "in a kernel's Python": module("return g.fn(x)", top=TRITON + "@triton.jit\ndef g(x):\n"
                                       "    return x.softmax(1)"),
        "among the children": module("for m in self.children():\n    x = m(x)", init="self.a = nn.Softmax(1)"),
        "among the modules": module("return list(self.modules())[1](x)", init="self.a = nn.Softmax(1)"),
        "as a module of that name": module("return self.get_submodule('a')(x)", init="self.a = nn.Softmax(1)"),
        "in a kernel": module(top=TRITON + "@triton.jit\ndef g(x):\n    return torch.softmax(x, 1)"),
        "in another's Model": module("return H.Model.f(x)", top="class H:\n    class Model:\n        def f(x):\n"
                                     "            return torch.softmax(x, 1)"),
        "in a Model that is kept": module(top="def keep(c):\n    return c\n@keep\nclass Model(nn.Module):\n"
                                          "    def forward(self, x):\n        return torch.softmax(x, 1)"),
        "in the body of Model": module("return K[0](x)", top="K = []\nclass Model(nn.Module):\n"
                                       "    K.append(lambda x: torch.softmax(x, 1))"),
        "in a method that is kept": module(top="def keep(f):\n    return f\nclass Model(nn.Module):\n    @keep\n"
                                           "    def forward(x):\n        return torch.softmax(x, 1)"),
        "in a method's default": module(top="class Model(nn.Module):\n    def forward(self, f=torch.softmax):\n"
                                        "        pass"),
        "of a parameter with an extension's name": module("return g(x)", top=LOAD_INLINE + "k = load_inline('k', "
                                                          "'int x;')\ndef g(k):\n    return k.softmax(1)"),
        "of another library": module("return torch.ops.mkl.something(x)"),
        "loaded": module("torch.ops.load_library('x')"),
        "of an extension that may be torch": module(
            "return self.k.softmax(x, 1)", top=LOAD_INLINE + "k = load_inline('k', 'int x;')",
            init="self.k = k\nself.k = nn.Identity()",
        ),
    },
    "cache": {
        "in one's own class": module("type(self).kept = x"),
        "in oneself by another name": module("me = self\nme.kept = x"),
        "in what a factory made": module("return f(x)", top="def make():\n    kept = {}\n    def f(x):\n"
                                         "        kept[0] = x\n        return kept[0]\n    return f\nf = make()"),
        "by a factory's list": module("return f(x)", top="def make():\n    kept = []\n    def f(x):\n"
                                      "        kept.append(x)\n        return kept[0]\n    return f\nf = make()"),
        "in what __init__ made": module(init="kept = []\ndef f(x):\n    kept.append(x)\nself.f = f"),
        "in a generator": module("return G.send(x)", top="def gen():\n    kept = yield\n    yield kept\nG = gen()"),
        "in a counter": module("n = next(C)\nreturn x", top="import itertools\nC = itertools.count()"),
        "in one's own counter": module("n = next(self.c)", init="import itertools\nself.c = itertools.count()"),
        "in the file's by another name": module("k = KEPT\nk[0] = x", top="KEPT = {}"),
        "in one's own by another name": module("k = self.seen\nl = k\nl.append(x)"),
        "in a default by name": module("return f(x)", top="KEPT = {}\ndef f(x, k=KEPT):\n    k[0] = x\n    return x"),
        "in a lambda's default": module(top="f = lambda x, k=[]: k"),
        "in a default made by name": module(top="KEPT = dict()\ndef f(x, k=KEPT):\n    return x"),
        "in a buffer": module("self.register_buffer('k', x)"),
        "in a buffer's values": module("self.k.copy_(x)"),
        "in a buffer's part": module("torch.narrow(self.k, 0, 0, 1).copy_(x)"),
        "in a buffer by out": module("torch.mul(x, 3, out=self.k).mul_(2)"),
        "in a buffer by further arguments": module("torch.mul(x, 3, **self.more).mul_(2)"),
        "in a buffer in place": module("F.relu(self.k, True).add_(x)"),
        "in a buffer by a sum": module("torch.add(x, 1, out=self.k)"),
        "in a set of torch's": module("torch.kept.add(1)"),
        "in a buffer by another torch": module("torch = self\ntorch.mul(x, 3).mul_(2)"),
        "in a buffer of another's": module("self.mul(x, 3).mul_(2)"),
    },
    "loading": {
        "by a module of the builder's": module("torch.utils.cpp_extension.setuptools.distutils.spawn.spawn(['ls'])"),
        "by the builder's check": module("torch.utils.cpp_extension.check_compiler_abi_compatibility('ls')"),
    },
    "device_state": {
        "autocast": module("torch.set_autocast_enabled(True)"),
        "tuning": module("torch.cuda.tunable.write_file('x')"),
        "profiles": module("torch.autograd.profiler.profile()"),
    },
    "stream": {"a module by getattr": module("o = getattr(torch, 'cuda')\no.Stream()")},
    "file": {"storage": module("torch.cuda.gds.GdsFile('x')")},
    "patch": {
        "hooks": module("self.register_load_state_dict_post_hook(print)"),
        "a class at the top": module(top="type(nn.Module).kept = 1"),
        "a class of the file": module("ModelNew.kept = x"),
    },
    "option": {"trigraphs": inline(extra_cflags="['-std=c++14']")},
}  # fmt: skip
DISGUISES = [(kind, name) for kind, files in DISGUISED.items() for name in files]


@pytest.mark.parametrize(("kind", "name"), DISGUISES, ids=[name for _, name in DISGUISES])
def test_no_disguise_helps(kind, name):
    refusal = screen_python(DISGUISED[kind][name], SOFTMAX, IEEE)
    assert refusal is not None
    assert refusal.kind == kind, refusal
