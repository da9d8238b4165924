// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Listens to the probes of the preloaded library, as a tracer would: counts them by what they say, and follows each thread's open scopes by
 * the rule that shim/README.md gives. `hit` counts probes by their number alone, for links that libbpf does not make.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>

#include "listen.h"

const volatile __u64 namespace_device, namespace_inode;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct listen_key);
	__type(value, struct listen_value);
} counts SEC(".maps");

struct thread {
	__u32 open, last;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LISTEN_FAULTS);
	__type(key, __u32);
	__type(value, __u64);
} faults SEC(".maps");

static void fault(__u32 which)
{
	__u64 *count = bpf_map_lookup_elem(&faults, &which);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static void add(__u32 probe, __u32 a, __u32 b, __u32 c, __u64 sum)
{
	struct bpf_pidns_info ids = {};
	struct listen_key key = {.probe = probe, .a = a, .b = b, .c = c};
	struct listen_value nothing = {}, *value;

	if (!bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &ids, sizeof(ids)))
		key.process = ids.tgid;
	bpf_map_update_elem(&counts, &key, &nothing, BPF_NOEXIST);
	value = bpf_map_lookup_elem(&counts, &key);
	if (!value) {
		fault(LISTEN_LOST);
		return;
	}
	__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->sum, sum);
}

SEC("usdt")
int BPF_USDT(scope_enter, __u32 id, __u32 function, __u32 class, __u32 outer)
{
	struct thread first = {.open = id, .last = id}, *thread;
	__u64 self = bpf_get_current_pid_tgid();

	thread = bpf_map_lookup_elem(&threads, &self);
	if (thread) {
		if (thread->open != outer)
			fault(LISTEN_MISNESTED);
		if (thread->last + 1 != id)
			fault(LISTEN_GAPS);
		thread->open = thread->last = id;
	} else {
		bpf_map_update_elem(&threads, &self, &first, BPF_ANY);
	}
	add(LISTEN_ENTER, function, class, outer != 0, 0);
	return 0;
}

SEC("usdt")
int BPF_USDT(scope_exit, __u32 id, __u32 function, __u32 class, __u32 outer)
{
	__u64 self = bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &self);

	if (thread) {
		if (thread->open != id)
			fault(LISTEN_MISNESTED);
		thread->open = outer;
	}
	add(LISTEN_EXIT, function, class, outer != 0, 0);
	return 0;
}

SEC("usdt")
int BPF_USDT(wait, __u32 rule, __u32 function, __u64 blocked_ns, __u32 site)
{
	__u64 self = bpf_get_current_pid_tgid();
	const struct thread *thread = bpf_map_lookup_elem(&threads, &self);

	if (!thread || !thread->open)
		fault(LISTEN_OUTSIDE);
	add(LISTEN_WAIT, function, rule, site, blocked_ns);
	return 0;
}

SEC("usdt")
int BPF_USDT(rewrite, const char *name, __u32 how, __u32 function, __u64 bytes)
{
	char word[4] = {};

	bpf_probe_read_user(word, sizeof(word), name);
	add(LISTEN_REWRITE, function, how,
	    word[0] | word[1] << 8 | word[2] << 16 | (__u32)word[3] << 24, bytes);
	return 0;
}

SEC("usdt")
int BPF_USDT(pool, __u32 how, __u32 kind, __u64 bytes, __u64 address)
{
	add(LISTEN_POOL, how, kind, 0, bytes);
	if (!address)
		fault(LISTEN_LOST);
	return 0;
}

SEC("uprobe")
int hit(struct pt_regs *registers)
{
	add(bpf_get_attach_cookie(registers), 0, 0, 0, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
