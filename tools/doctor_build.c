// SPDX-License-Identifier: MIT
/*
 * Doctor, build: is the library there, does it load here, which parts came with this build. Called
 * by the doctor.
 */
#include <fcntl.h>
#include <gelf.h>
#include <gnu/libc-version.h>

#include "calibrate/table.h"
#include "doctor.h"
#include "memory.h"
#include "place.h"
#include "program.h"
#include "run.h"

/* "GLIBC_2.34" to 2034; 0: another name. */
static unsigned int glibc_number(const char *name)
{
	unsigned int major, minor;

	if (sscanf(name, "GLIBC_%u.%u", &major, &minor) != 2)
		return 0;
	return major * 1000 + minor;
}

static unsigned int newest_in_section(Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	unsigned int newest = 0;
	int need_at = 0;
	GElf_Verneed need;

	while (data && gelf_getverneed(data, need_at, &need)) {
		int version_at = need_at + (int)need.vn_aux;

		for (GElf_Half i = 0; i < need.vn_cnt; i++) {
			GElf_Vernaux version;
			const char *name;

			if (!gelf_getvernaux(data, version_at, &version))
				break;
			name = elf_strptr(elf, header->sh_link, version.vna_name);
			if (name && glibc_number(name) > newest)
				newest = glibc_number(name);
			version_at += (int)version.vna_next;
		}
		if (!need.vn_next)
			break;
		need_at += (int)need.vn_next;
	}
	return newest;
}

/* The newest glibc that a library asks for, as glibc_number(); 0: unknown. */
static unsigned int glibc_need(const char *path)
{
	_cleanup_close_ int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	Elf_Scn *section = NULL;
	unsigned int newest = 0;
	GElf_Shdr header;
	Elf *elf;

	if (descriptor < 0 || elf_version(EV_CURRENT) == EV_NONE)
		return 0;
	elf = elf_begin(descriptor, ELF_C_READ, NULL);
	while (elf && (section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_GNU_verneed) {
			unsigned int found = newest_in_section(elf, section, &header);

			newest = found > newest ? found : newest;
		}
	elf_end(elf);
	return newest;
}

static void check_library(struct doctor *doctor)
{
	_cleanup_free_ char *tried = NULL, *why = NULL;
	_cleanup_free_ char *library = place_library(&tried);
	const char *version = gnu_get_libc_version();
	struct program self = {0};
	unsigned int need;

	if (!library) {
		doctor_add(doctor, "library", DOCTOR_MISSING,
			   "libslipstream.so not found, tried %s", tried);
		return;
	}
	if (!program_inspect("/proc/self/exe", &self)) {
		free(self.image);
		self.image = memory_check(realpath("/proc/self/exe", NULL));
		why = run_preload_verify(library, &self);
		program_done(&self);
	}
	if (why)
		doctor_add(doctor, "library", DOCTOR_MISSING, "%s does not load: %s", library, why);
	else
		doctor_add(doctor, "library", DOCTOR_OK, "%s loads", library);

	need = glibc_need(library);
	if (need)
		doctor_add(doctor, "glibc", DOCTOR_OK, "%s here, the library needs %u.%u or newer",
			   version, need / 1000, need % 1000);
	else
		doctor_add(doctor, "glibc", DOCTOR_OK, "%s here", version);
}

static void check_part(struct doctor *doctor, const char *name, const char *folder,
		       const char *program, const char *without)
{
	_cleanup_free_ char *path = place_program(folder, program);

	if (path)
		doctor_add(doctor, name, DOCTOR_OK, "%s", path);
	else
		doctor_add(doctor, name, DOCTOR_NOTE, "not part of this build: %s", without);
}

static size_t count_lines(const struct table *table, const char *kind)
{
	size_t count = 0;

	for (size_t i = 0; i < table->count; i++)
		count += !strncmp(table->line[i], kind, strlen(kind));
	return count;
}

/* The first line of that kind, without its first word; NULL: none. */
static const char *find_line(const struct table *table, const char *kind)
{
	for (size_t i = 0; i < table->count; i++)
		if (!strncmp(table->line[i], kind, strlen(kind)))
			return table->line[i] + strlen(kind);
	return NULL;
}

/* What the library goes by where it can be told: idle costs, sizes from which on copies are staged. */
static void check_table(struct doctor *doctor)
{
	const char *path = getenv("SLIPSTREAM_CALIBRATION"),
		   *from = getenv("SLIPSTREAM_STAGE_FROM");
	const char *gpu, *driver;
	struct table table = {0};
	size_t sizes;

	if (!path || !*path) {
		doctor_add(doctor, "calibration table", DOCTOR_NOTE,
			   "none is set: mode fix stages copies by sizes measured on an H200; "
			   "slipstream calibrate --output FILE, then run --calibration FILE");
		return;
	}
	table_speaker = NULL;
	if (table_read(&table, path, 0)) {
		doctor_add(doctor, "calibration table", DOCTOR_WARNING,
			   "%s is ignored: missing, damaged or of another version", path);
		return;
	}
	gpu = find_line(&table, "gpu ");
	driver = find_line(&table, "driver ");
	sizes = count_lines(&table, "stage ");
	doctor_add(
		doctor, "calibration table", sizes ? DOCTOR_OK : DOCTOR_NOTE,
		"%s, of GPU %s, driver %s: %zu idle costs, sizes of %zu kinds of staged copies%s",
		path, gpu ? gpu : "unknown", driver ? driver : "unknown",
		count_lines(&table, "idle "), sizes,
		!sizes          ? " (measure it again to have them)"
		: from && *from ? ", but SLIPSTREAM_STAGE_FROM is set and wins"
				: ", used on that GPU and driver");
	table_clear(&table);
}

void doctor_check_build(struct doctor *doctor)
{
	check_library(doctor);
	check_part(doctor, "calibrate", "calibrate", "slipstream-calibrate",
		   "idle costs are the run's own minimum or the catalogue's figure");
	check_table(doctor);
	check_part(doctor, "trace", "trace", "slipstream-trace",
		   "no slipstream trace (Debian package liblttng-ctl-dev); own sessions work");
	check_part(doctor, "analysis", "../tracing/analysis", "slipstream-analyze",
		   "traces cannot be read (Debian package libbabeltrace2-dev); record files can");
	check_part(doctor, "bpf", "../bpf", "slipstream-witness",
		   "no attach, no run --witness (Debian packages clang, bpftool, libbpf-dev)");
}
