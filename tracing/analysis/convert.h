// SPDX-License-Identifier: MIT
/*
 * A golden trace as CTF, through babeltrace2's own sink: `slipstream-analyze convert FILE FOLDER`. Its clock
 * is that of LTTng's traces of this boot, so that both are read as one. One thread.
 */
#ifndef SLIPSTREAM_TRACING_CONVERT_H
#define SLIPSTREAM_TRACING_CONVERT_H

#define CONVERT_COMMAND "convert"

/* 0, or -errno with one line in *reterr_text (the caller frees). The folder must not be there. */
int convert_text(const char *file, const char *folder, char **reterr_text);

#endif
