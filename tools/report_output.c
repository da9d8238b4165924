// SPDX-License-Identifier: MIT
/*
 * Report, output: text and JSON to where the options say. Called by `run` and `report`. A file is
 * made before the program starts, so that an unwritable place is an error then and not after hours.
 */
#include <errno.h>

#include "memory.h"
#include "report.h"

static int prepare(const char *path, char **reterr_text)
{
	FILE *file;
	int error;

	if (!path)
		return 0;
	file = fopen(path, "we");
	if (!file || fclose(file)) {
		error = errno;
		*reterr_text = memory_format("cannot write %s: %s", path, strerror(error));
		return -error;
	}
	return 0;
}

int report_output_prepare(const struct report_output *output, char **reterr_text)
{
	int error = prepare(output->json_path, reterr_text);

	return error ? error : prepare(output->output_path, reterr_text);
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

static int write_json(struct report *report, const char *path, char **reterr_text)
{
	FILE *file = fopen(path, "we");
	json_t *object;
	bool failed;

	if (!file) {
		*reterr_text = memory_format("cannot write %s: %s", path, strerror(errno));
		return -errno;
	}
	object = report_json(report);
	errno = 0;
	failed = json_dumpf(object, file, JSON_INDENT(2) | JSON_SORT_KEYS) || putc('\n', file) < 0;
	json_decref(object);
	return finish(file, failed, path, reterr_text);
}

int report_output_write(struct report *report, struct report_output *output, char **reterr_text)
{
	int error = 0;

	if (output->json_path)
		error = write_json(report, output->json_path, reterr_text);
	if (output->output_path && !error) {
		FILE *file = fopen(output->output_path, "we");

		if (!file) {
			*reterr_text = memory_format("cannot write %s: %s", output->output_path,
						     strerror(errno));
			return -errno;
		}
		errno = 0;
		output->style.colour = false;
		report_write_text(report, &output->style, file);
		error = finish(file, false, output->output_path, reterr_text);
	} else if (!output->output_path) {
		report_write_text(report, &output->style, output->text_stream);
		(void)fflush(output->text_stream);
	}
	return error;
}
