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
 * What is wrong with the packets of the folder's metadata, in one line: babeltrace2 2.0 never
 * returns from metadata that says it is longer than it is. NULL: nothing, or it is plain text. The
 * caller frees.
 */
char *salvage_metadata_damage(const char *folder);

#endif
