// SPDX-License-Identifier: MIT
/*
 * Salvage: the readable part of an LTTng trace whose stream files are cut, as the death of a
 * consumer daemon, a full disk or a broken copy leaves them. babeltrace2 refuses such a folder as a
 * whole.
 */
#ifndef SLIPSTREAM_TRACING_SALVAGE_H
#define SLIPSTREAM_TRACING_SALVAGE_H

/*
 * A temporary folder with the trace's metadata and the whole packets of its streams: links to whole
 * files, copies of the whole part of others. NULL: there is no damage of this kind, or no place;
 * else *ret_damage says in one line what is left out. The caller frees both, and removes the folder
 * with salvage_remove().
 */
char *salvage_make(const char *folder, char **ret_damage);
void salvage_remove(const char *folder);

/*
 * The damage in a folder that babeltrace2 2.0 does not survive, in one line: it never returns from
 * metadata that says it is longer than it is, nor from a packet of no bits, and aborts at one of
 * 2^63 or more. NULL: none. The caller frees.
 */
char *salvage_poison(const char *folder);

#endif
