// SPDX-License-Identifier: MIT
/* Notes of USDT probes. Relies on libelf. */
#include "usdt_notes.h"

#include <asm/ptrace.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gelf.h>

#include "elf_limits.h"

enum { NOTE_TYPE = 3, SECTION_LIMIT = 1 << 20 };

/* Each register by its four names, largest first. */
static const struct {
	char names[4][6];
	uint8_t offset;
} registers[] = {
	{{"rax", "eax", "ax", "al"}, offsetof(struct pt_regs, rax)},
	{{"rbx", "ebx", "bx", "bl"}, offsetof(struct pt_regs, rbx)},
	{{"rcx", "ecx", "cx", "cl"}, offsetof(struct pt_regs, rcx)},
	{{"rdx", "edx", "dx", "dl"}, offsetof(struct pt_regs, rdx)},
	{{"rsi", "esi", "si", "sil"}, offsetof(struct pt_regs, rsi)},
	{{"rdi", "edi", "di", "dil"}, offsetof(struct pt_regs, rdi)},
	{{"rbp", "ebp", "bp", "bpl"}, offsetof(struct pt_regs, rbp)},
	{{"rsp", "esp", "sp", "spl"}, offsetof(struct pt_regs, rsp)},
	{{"r8", "r8d", "r8w", "r8b"}, offsetof(struct pt_regs, r8)},
	{{"r9", "r9d", "r9w", "r9b"}, offsetof(struct pt_regs, r9)},
	{{"r10", "r10d", "r10w", "r10b"}, offsetof(struct pt_regs, r10)},
	{{"r11", "r11d", "r11w", "r11b"}, offsetof(struct pt_regs, r11)},
	{{"r12", "r12d", "r12w", "r12b"}, offsetof(struct pt_regs, r12)},
	{{"r13", "r13d", "r13w", "r13b"}, offsetof(struct pt_regs, r13)},
	{{"r14", "r14d", "r14w", "r14b"}, offsetof(struct pt_regs, r14)},
	{{"r15", "r15d", "r15w", "r15b"}, offsetof(struct pt_regs, r15)},
};

static bool take_register(const char **text, uint8_t *ret_offset)
{
	size_t length = 0;

	while (isalnum((unsigned char)(*text)[length]))
		length++;
	for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
		for (size_t n = 0; n < 4; n++) {
			if (strlen(registers[i].names[n]) == length &&
			    !strncmp(registers[i].names[n], *text, length)) {
				*ret_offset = registers[i].offset;
				*text += length;
				return true;
			}
		}
	}
	return false;
}

/* One of "4@%edi", "8@$5", "-4@-8(%rbp)", "4@(%rax)". */
static bool take_argument(const char **text, struct probe_argument *ret_argument)
{
	struct probe_argument argument = {0};
	char *end;
	long size = strtol(*text, &end, 10);

	if (end == *text || *end != '@' || (labs(size) & (labs(size) - 1)) || labs(size) > 8 ||
	    !size)
		return false;
	argument.is_signed = size < 0;
	argument.size = (uint8_t)labs(size);
	*text = end + 1;
	if (**text == '$') {
		argument.form = PROBE_CONSTANT;
		argument.value = strtoll(*text + 1, &end, 0);
		if (end == *text + 1)
			return false;
		*text = end;
	} else if (**text == '%') {
		argument.form = PROBE_REGISTER;
		++*text;
		if (!take_register(text, &argument.offset))
			return false;
	} else {
		argument.form = PROBE_MEMORY;
		argument.value = strtoll(*text, &end, 0);
		if (end[0] != '(' || end[1] != '%')
			return false;
		*text = end + 2;
		if (!take_register(text, &argument.offset) || **text != ')')
			return false;
		++*text;
	}
	*ret_argument = argument;
	return !**text || **text == ' ';
}

bool usdt_arguments(const char *text, struct probe_shape *ret_arguments)
{
	struct probe_shape arguments = {0};

	for (;;) {
		while (*text == ' ')
			text++;
		if (!*text)
			break;
		if (arguments.count == PROBE_ARGUMENTS ||
		    !take_argument(&text, &arguments.argument[arguments.count]))
			return false;
		arguments.count++;
	}
	*ret_arguments = arguments;
	return true;
}

static uint64_t file_offset(Elf *elf, uint64_t address)
{
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return 0;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD &&
		    address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz)
			return address - header.p_vaddr + header.p_offset;
	}
	return 0;
}

/* A string inside the note; NULL if it does not end there. */
static const char *take_string(const char **at, const char *end)
{
	const char *text = *at, *stop = memchr(text, 0, (size_t)(end - text));

	if (stop)
		*at = stop + 1;
	return stop ? text : NULL;
}

static bool take_note(Elf *elf, const char *at, size_t size, const char *provider, uint64_t base,
		      struct usdt_note *ret_note)
{
	const char *end = at + size, *words[3];
	uint64_t address[3]; /* of the probe, of the base as it was, of the semaphore */
	struct usdt_note note = {0};

	if (size < sizeof(address))
		return false;
	memcpy(address, at, sizeof(address));
	at += sizeof(address);
	for (size_t i = 0; i < 3; i++) {
		words[i] = take_string(&at, end);
		if (!words[i])
			return false;
	}
	if (strcmp(words[0], provider) || strlen(words[1]) >= sizeof(note.name) ||
	    !usdt_arguments(words[2], &note.arguments))
		return false;
	strcpy(note.name, words[1]);
	/* Moved by prelink since. */
	if (base) {
		address[0] += base - address[1];
		if (address[2])
			address[2] += base - address[1];
	}
	note.offset = file_offset(elf, address[0]);
	note.semaphore = address[2] ? file_offset(elf, address[2]) : 0;
	*ret_note = note;
	return note.offset && (!address[2] || note.semaphore);
}

static int read_notes(Elf *elf, Elf_Scn *section, const char *provider, uint64_t base,
		      struct usdt_note *ret_notes)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t at = 0, name, content;
	GElf_Nhdr header;
	int count = 0;

	if (!data || data->d_size > SECTION_LIMIT)
		return -EINVAL;
	while (count < USDT_NOTES && (at = gelf_getnote(data, at, &header, &name, &content)) > 0) {
		if (header.n_type == NOTE_TYPE && header.n_namesz == sizeof("stapsdt") &&
		    !memcmp((char *)data->d_buf + name, "stapsdt", sizeof("stapsdt")) &&
		    take_note(elf, (char *)data->d_buf + content, header.n_descsz, provider, base,
			      &ret_notes[count]))
			count++;
	}
	return count;
}

int usdt_read(int file, const char *provider, struct usdt_note *ret_notes)
{
	Elf_Scn *section = NULL, *notes = NULL;
	uint64_t base = 0;
	size_t names;
	Elf *elf;
	int r = 0;

	if (!elf_limits_hold(file))
		return -EINVAL;
	elf_version(EV_CURRENT);
	elf = elf_begin(file, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF || elf_getshdrstrndx(elf, &names) ||
	    !elf_names_fit(elf, names))
		r = -EINVAL;
	while (!r && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name;

		if (!gelf_getshdr(section, &header))
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		if (name && !strcmp(name, ".note.stapsdt") && header.sh_size <= SECTION_LIMIT)
			notes = section;
		if (name && !strcmp(name, ".stapsdt.base"))
			base = header.sh_addr;
	}
	if (!r && notes)
		r = read_notes(elf, notes, provider, base, ret_notes);
	if (elf)
		elf_end(elf);
	return r;
}
