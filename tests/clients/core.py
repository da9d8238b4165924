# SPDX-License-Identifier: MIT
"""A client of cuda.core: a device, streams, events, pinned and device memory. Prints what it saw, the same on every run.

No Device.sync(): that goes through the CUDA runtime, whose private tables the simulated driver does not have.
"""
import ctypes

from cuda.core import Device, LegacyPinnedMemoryResource

BYTES = 4096

device = Device(0)
device.set_current()
first = device.create_stream()
second = device.create_stream()

pinned_memory = LegacyPinnedMemoryResource()
source = pinned_memory.allocate(BYTES)
target = pinned_memory.allocate(BYTES)
ctypes.memmove(int(source.handle), bytes(i * 5 % 256 for i in range(BYTES)), BYTES)

buffer = device.allocate(BYTES, stream=first)
buffer.copy_from(source, stream=first)
event = first.record()
second.wait(event)
buffer.copy_to(target, stream=second)
second.sync()
event.sync()
assert event.is_done
got = ctypes.string_at(int(target.handle), BYTES)
assert got == bytes(i * 5 % 256 for i in range(BYTES)), "the bytes came back changed"
buffer.close(second)
second.sync()
source.close()
target.close()
print("bytes", sum(got))
