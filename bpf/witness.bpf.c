// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts calls of the driver library's functions by process, function and return address. One
 * uprobe program for all functions: which one it is comes in the cookie. It sits on a function's
 * first instruction, so the return address is the word on top of the stack.
 *
 * Maps: `calls` the counts, read by the loader once the programs have ended; `lost` calls that
 * found no room, one word a CPU.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "witness.h"

/* Set by the loader: its pid namespace, whose ids the keys carry. */
const volatile __u64 namespace_device, namespace_inode;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WITNESS_ENTRIES);
	__type(key, struct witness_key);
	__type(value, __u64);
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static void count_lost(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&lost, &zero);

	/* Programs at uprobes may be preempted by one another. */
	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("uprobe")
int call(struct pt_regs *registers)
{
	struct bpf_pidns_info ids = {};
	struct witness_key key = {};
	__u64 one = 1, *count;

	if (bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &ids, sizeof(ids)))
		return 0; /* of another namespace: none of ours */
	key.process = ids.tgid;
	key.function = bpf_get_attach_cookie(registers);
	if (bpf_probe_read_user(&key.return_address, sizeof(key.return_address),
				(void *)PT_REGS_SP(registers))) {
		count_lost();
		return 0;
	}

	count = bpf_map_lookup_elem(&calls, &key);
	if (!count) {
		/* Another CPU may have been first: then its entry is counted up below. */
		if (!bpf_map_update_elem(&calls, &key, &one, BPF_NOEXIST))
			return 0;
		count = bpf_map_lookup_elem(&calls, &key);
		if (!count) {
			count_lost();
			return 0;
		}
	}
	__sync_fetch_and_add(count, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
