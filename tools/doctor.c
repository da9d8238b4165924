// SPDX-License-Identifier: MIT
/* slipstream doctor: placeholder until the checks below are written. */
#include "command.h"

int command_doctor(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	command_fail(1, "not part of this build");
}
