"""Call the runtime's handlers as XLA does, without XLA: call frames that ctypes makes.

XLA gives a handler buffers of exactly the size that their types say.  So does this module, each
buffer in a piece of memory of its own, beside which AddressSanitizer sees every access.
"""

import ctypes as c
import math

import bellhop_runtime._runtime as runtime
import numpy as np

# Element types by XLA's number.
TYPES = {
    "i1": (1, np.uint8),
    "i32": (4, np.int32),
    "i64": (5, np.int64),
    "ui8": (6, np.uint8),
    "ui32": (8, np.uint32),
    "f32": (11, np.float32),
    "f64": (12, np.float64),
    "c128": (18, np.complex128),
}
INSTANTIATE, EXECUTE = 0, 3
# What XLA would not allocate either.
LARGEST_BUFFER = 1 << 22

libc = c.CDLL(None)
libc.malloc.restype = c.c_void_p
libc.malloc.argtypes = (c.c_size_t,)
libc.free.argtypes = (c.c_void_p,)


def _struct(name, *fields):
    return type(name, (c.Structure,), {"_fields_": list(fields)})


_HEAD = (("struct_size", c.c_size_t), ("extension", c.c_void_p))
Span = _struct("Span", ("ptr", c.c_void_p), ("len", c.c_size_t))
Scalar = _struct("Scalar", ("dtype", c.c_int), ("value", c.c_void_p))
Array = _struct("Array", ("dtype", c.c_int), ("size", c.c_size_t), ("data", c.c_void_p))
Buffer = _struct(
    "Buffer",
    *_HEAD,
    ("dtype", c.c_int),
    ("data", c.c_void_p),
    ("rank", c.c_int64),
    ("dims", c.POINTER(c.c_int64)),
)
Values = _struct(
    "Values",
    *_HEAD,
    ("size", c.c_int64),
    ("types", c.POINTER(c.c_int)),
    ("values", c.POINTER(c.c_void_p)),
)
Attrs = _struct(
    "Attrs",
    *_HEAD,
    ("size", c.c_int64),
    ("types", c.POINTER(c.c_int)),
    ("names", c.POINTER(c.c_void_p)),
    ("attrs", c.POINTER(c.c_void_p)),
)
Frame = _struct(
    "Frame",
    *_HEAD,
    ("api", c.c_void_p),
    ("ctx", c.c_void_p),
    ("stage", c.c_int),
    ("args", Values),
    ("rets", Values),
    ("attrs", Attrs),
    ("future", c.c_void_p),
)
_Version = _struct("Version", *_HEAD, ("major", c.c_int), ("minor", c.c_int))
_FUNCTION = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
_TASK = c.CFUNCTYPE(None, c.c_void_p)
_DELETER = c.CFUNCTYPE(None, c.c_void_p)
_NAMES = (
    "Error_Create",
    "Error_GetMessage",
    "Error_Destroy",
    "Handler_Register",
    "Stream_Get",
    "Type_Register",
    "ExecutionContext_Get",
    "State_Set",
    "State_Get",
    "DeviceMemory_Allocate",
    "DeviceMemory_Free",
    "ThreadPool_Schedule",
    "ThreadPool_NumThreads",
    "Future_Create",
    "Future_SetAvailable",
    "Future_SetError",
    "RunId_Get",
    "DeviceOrdinal_Get",
)
Api = _struct(
    "Api",
    *_HEAD,
    ("version", _Version),
    ("internal", c.c_void_p),
    *((name, _FUNCTION) for name in _NAMES),
)
_ErrorCreate = _struct("ErrorCreate", *_HEAD, ("message", c.c_char_p), ("code", c.c_int))
_ErrorMessage = _struct("ErrorMessage", *_HEAD, ("error", c.c_void_p), ("message", c.c_char_p))
_TypeInfo = _struct("TypeInfo", *_HEAD, ("deleter", c.c_void_p))
_TypeRegister = _struct(
    "TypeRegister",
    *_HEAD,
    ("name", Span),
    ("type_id", c.POINTER(c.c_int64)),
    ("info", c.POINTER(_TypeInfo)),
)
_State = _struct(
    "State",
    *_HEAD,
    ("ctx", c.c_void_p),
    ("stage", c.c_int),
    ("type_id", c.POINTER(c.c_int64)),
    ("state", c.c_void_p),
)
_Threads = _struct("Threads", *_HEAD, ("ctx", c.c_void_p), ("count", c.POINTER(c.c_int64)))
_Schedule = _struct(
    "Schedule", *_HEAD, ("ctx", c.c_void_p), ("task", c.c_void_p), ("data", c.c_void_p)
)
_RunId = _struct("RunId", *_HEAD, ("ctx", c.c_void_p), ("run_id", c.c_int64))
_Ordinal = _struct("Ordinal", *_HEAD, ("ctx", c.c_void_p), ("ordinal", c.c_int32))

_of_capsule = c.pythonapi.PyCapsule_GetPointer
_of_capsule.restype, _of_capsule.argtypes = c.c_void_p, (c.py_object, c.c_char_p)
HANDLERS = {
    name: {stage: _FUNCTION(_of_capsule(capsule, None)) for stage, capsule in stages.items()}
    for name, stages in runtime.targets().items()
}


class Machine:
    """What handlers take for XLA."""

    def __init__(self):
        self.errors = {}
        self.deleters = {}
        self.state = None
        self.run_id = 1
        self.numbers = 0
        functions = {name: _FUNCTION(getattr(self, f"_{name}", self._nothing)) for name in _NAMES}
        self._functions = functions
        self.api = Api(
            c.sizeof(Api),
            None,
            _Version(c.sizeof(_Version), None, 0, 3),
            None,
            *(functions[name] for name in _NAMES),
        )

    def _nothing(self, _):
        return None

    def _Error_Create(self, args):
        self.numbers += 8
        self.errors[self.numbers] = c.cast(args, c.POINTER(_ErrorCreate))[0].message or b""
        return self.numbers

    def _Error_GetMessage(self, args):
        given = c.cast(args, c.POINTER(_ErrorMessage))[0]
        given.message = self.errors[given.error]

    def _Error_Destroy(self, args):
        self.errors.pop(c.cast(args, c.POINTER(_ErrorMessage))[0].error, None)

    def _Type_Register(self, args):
        given = c.cast(args, c.POINTER(_TypeRegister))[0]
        given.type_id[0] = number = len(self.deleters) + 1001
        self.deleters[number] = _DELETER(given.info[0].deleter)

    def _State_Set(self, args):
        given = c.cast(args, c.POINTER(_State))[0]
        self.state = given.type_id[0], given.state

    def _State_Get(self, args):
        c.cast(args, c.POINTER(_State))[0].state = self.state[1]

    def _ThreadPool_NumThreads(self, args):
        c.cast(args, c.POINTER(_Threads))[0].count[0] = 2

    def _ThreadPool_Schedule(self, args):
        given = c.cast(args, c.POINTER(_Schedule))[0]
        _TASK(given.task)(given.data)

    def _RunId_Get(self, args):
        c.cast(args, c.POINTER(_RunId))[0].run_id = self.run_id

    def _DeviceOrdinal_Get(self, args):
        c.cast(args, c.POINTER(_Ordinal))[0].ordinal = 0

    def free(self, state):
        """Destroy a state of a compiled call, as XLA does with an executable."""
        if state is not None:
            self.deleters[state[0]](state[1])

    def call(self, target, stage, operands=(), results=(), attributes=None, state=None):
        """Call a handler.

        Args:
            target: its name.
            stage: ``"instantiate"`` or ``"execute"``.
            operands: arrays, or pairs of an element type and a shape, whose content is zero.
            results: pairs of an element type and a shape.
            attributes: values by name: int, str, or ``(type, list)``.
            state: what ``instantiate`` made.

        Returns:
            The error message or None, the results, and the state that was made.
        """
        kept, freed = [], []
        arguments = [self._buffer(each, kept, freed) for each in operands]
        returned = [self._buffer(each, kept, freed) for each in results]
        attrs = self._attributes(attributes or {}, kept, freed)
        self.state = state
        frame = Frame(
            Frame.future.offset,
            None,
            c.addressof(self.api),
            None,
            INSTANTIATE if stage == "instantiate" else EXECUTE,
            self._values(arguments, kept),
            self._values(returned, kept),
            attrs,
            None,
        )
        error = HANDLERS[target][stage](c.addressof(frame))
        made = self.state
        out = [self._content(each) for each in returned]
        for memory in freed:
            libc.free(memory)
        return (None if not error else self.errors.pop(error).decode(errors="replace")), out, made

    def _buffer(self, given, kept, freed):
        if isinstance(given, np.ndarray):
            name = next(name for name, (_, dtype) in TYPES.items() if given.dtype == dtype)
            if given.dtype == np.uint8:
                name = "ui8"
            shape, content = given.shape, given.tobytes()
        else:
            name, shape, *content = given
            content = content[0] if content else b""
        number, dtype = TYPES[name]
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = libc.malloc(max(size, 1))
        freed.append(memory)
        c.memset(memory, 0, size)
        c.memmove(memory, content, min(size, len(content)))
        dims = (c.c_int64 * max(len(shape), 1))(*shape)
        buffer = Buffer(c.sizeof(Buffer), None, number, memory if size else None, len(shape), dims)
        kept.append((dims, buffer, name))
        return buffer, name, shape, size

    @staticmethod
    def _content(given):
        buffer, name, shape, size = given
        # NumPy has no empty array with dimensions as large as XLA's.
        data = c.string_at(buffer.data, size) if size else b""
        return np.frombuffer(data, TYPES[name][1]).reshape(shape if size else (0,))

    @staticmethod
    def _values(given, kept):
        count = max(len(given), 1)
        types = (c.c_int * count)(*[1] * len(given))
        values = (c.c_void_p * count)(*(c.addressof(each[0]) for each in given))
        kept.append((types, values))
        return Values(c.sizeof(Values), None, len(given), types, values)

    def _attributes(self, attributes, kept, freed):
        count = max(len(attributes), 1)
        types, names, attrs = (c.c_int * count)(), (c.c_void_p * count)(), (c.c_void_p * count)()
        for i, (name, value) in enumerate(sorted(attributes.items())):
            text = c.create_string_buffer(name.encode())
            span = Span(c.addressof(text), len(name))
            names[i] = c.addressof(span)
            if isinstance(value, str):
                data = value.encode()
                memory = libc.malloc(max(len(data), 1))
                freed.append(memory)
                c.memmove(memory, data, len(data))
                made, types[i] = Span(memory, len(data)), 4
            elif isinstance(value, int):
                number = c.c_int64(value)
                made, types[i] = Scalar(5, c.addressof(number)), 3
                kept.append(number)
            else:
                element, values = value
                number, dtype = TYPES[element]
                data = np.array(values, dtype).tobytes()
                memory = libc.malloc(max(len(data), 1))
                freed.append(memory)
                c.memmove(memory, data, len(data))
                made, types[i] = Array(number, len(values), memory), 1
            attrs[i] = c.addressof(made)
            kept.append((text, span, made))
        kept.append((types, names, attrs))
        return Attrs(c.sizeof(Attrs), None, len(attributes), types, names, attrs)
