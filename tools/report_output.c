// SPDX-License-Identifier: MIT
/*
 * Report, output: text and JSON to where the options say. Called by `run` and `report`. A file is
 * made before the program starts, so that an unwritable place is an error then and not after hours.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "memory.h"
#include "report.h"

static bool is_fifo(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISFIFO(status.st_mode);
}

/* Never waits for the reader of a FIFO; what is written then may wait for it as usual. */
static int open_output(const char *path, FILE **ret_file, char **reterr_text)
{
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, error;
	int fd = open(path, flags, 0666);
	const char *why;

	if (fd >= 0) {
		flags = fcntl(fd, F_GETFL);
		if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) >= 0)
			*ret_file = fdopen(fd, "w");
		if (*ret_file)
			return 0;
	}
	error = errno;
	why = error == ENXIO && is_fifo(path) ? "nobody reads this FIFO" : strerror(error);
	*reterr_text = memory_format("cannot write %s: %s", path, why);
	if (fd >= 0)
		(void)close(fd);
	return -error;
}

/* A FIFO stays open: its reader would take the closing for the end of the report. */
static int prepare(const char *path, FILE **ret_held, char **reterr_text)
{
	FILE *file = NULL;
	int error;

	if (!path)
		return 0;
	error = open_output(path, &file, reterr_text);
	if (error)
		return error;
	if (is_fifo(path)) {
		*ret_held = file;
		return 0;
	}
	if (fclose(file)) {
		error = errno;
		*reterr_text = memory_format("cannot write %s: %s", path, strerror(error));
		return -error;
	}
	return 0;
}

int report_output_prepare(struct report_output *output, char **reterr_text)
{
	int error;

	if (output->style.by >= REPORT_BY_STREAM && !output->is_of_trace) {
		*reterr_text =
			memory_format("this key of --by needs a trace: slipstream report FOLDER");
		return -EINVAL;
	}
	error = prepare(output->json_path, &output->json_held, reterr_text);

	return error ? error : prepare(output->output_path, &output->output_held, reterr_text);
}

/* Takes what prepare() has kept open. */
static int begin(const char *path, FILE **held, FILE **ret_file, char **reterr_text)
{
	if (!*held)
		return open_output(path, ret_file, reterr_text);
	*ret_file = *held;
	*held = NULL;
	return 0;
}

static int finish(FILE *file, bool failed, const char *path, char **reterr_text)
{
	failed |= ferror(file) != 0;
	if (fclose(file))
		failed = true;
	if (!failed)
		return 0;
	*reterr_text = memory_format("cannot write %s: %s", path, strerror(errno ? errno : EIO));
	return errno ? -errno : -EIO;
}

static int write_json(struct report *report, struct report_output *output, char **reterr_text)
{
	const char *path = output->json_path;
	FILE *file = NULL;
	json_t *object;
	bool failed;
	int error = begin(path, &output->json_held, &file, reterr_text);

	if (error)
		return error;
	object = report_json(report);
	errno = 0;
	failed = json_dumpf(object, file, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII) ||
		 putc('\n', file) < 0;
	json_decref(object);
	return finish(file, failed, path, reterr_text);
}

static int write_text(struct report *report, struct report_output *output, char **reterr_text)
{
	FILE *file = NULL;
	int error = begin(output->output_path, &output->output_held, &file, reterr_text);

	if (error)
		return error;
	errno = 0;
	output->style.colour = false;
	report_write_text(report, &output->style, file);
	return finish(file, false, output->output_path, reterr_text);
}

int report_output_write(struct report *report, struct report_output *output, char **reterr_text)
{
	/* A reader that has left is an error to tell, and no death. */
	void (*broken_pipe)(int) = signal(SIGPIPE, SIG_IGN);
	int error = 0;

	if (output->json_path)
		error = write_json(report, output, reterr_text);
	if (output->output_path && !error)
		error = write_text(report, output, reterr_text);
	(void)signal(SIGPIPE, broken_pipe);
	if (!output->output_path) {
		report_write_text(report, &output->style, output->text_stream);
		(void)fflush(output->text_stream);
	}
	return error;
}
