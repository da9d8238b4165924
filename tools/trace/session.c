// SPDX-License-Identifier: MIT
/*
 * Session (session.h). Called by trace.c; relies on liblttng-ctl and the keeper.
 *
 * enter() and leave() stand around every group of calls: they direct liblttng-ctl, which connects anew
 * for each call, to the private daemon and set the time limit, since a call waits without one for a
 * daemon that hangs.
 */
#include "session.h"

#include <errno.h>
#include <lttng/action/action.h>
#include <lttng/action/rate-policy.h>
#include <lttng/action/snapshot-session.h>
#include <lttng/condition/condition.h>
#include <lttng/condition/event-rule-matches.h>
#include <lttng/event-rule/user-tracepoint.h>
#include <lttng/lttng.h>
#include <lttng/trigger/trigger.h>

#include "daemon_user.h"
#include "folder.h"
#include "keeper.h"
#include "memory.h"
#include "session_socket.h"

#define PATTERN "slipstream:*"
#define LIVE_US 200000 /* how old an event may get before a live reader has it */
#define SWITCH_US                                                                                  \
	1000000      /* buffers are handed on at least so often: a killed daemon loses little */
#define MONITOR_US 0 /* nobody watches the buffers' fill */

struct session {
	const struct session_plan *plan;
	struct lttng_handle *handle;
	struct lttng_trigger *trigger;
	bool joined, had_events;      /* had: before we came */
	struct lttng_channel channel; /* joined: the one that takes our events */
	struct session_loss before;   /* joined: lost before we came */
	char *socket;                 /* of the private daemon */
};

/* ---- Which daemon, and for how long ---- */

static void enter(struct session *session)
{
	if (!session->plan->keeper)
		return;
	session_socket = session->socket;
	keeper_call_begins(session->plan->keeper);
}

/* False: it took too long, and the daemons are gone. */
static bool leave(struct session *session)
{
	if (!session->plan->keeper)
		return true;
	session_socket = NULL;
	return keeper_call_ends(session->plan->keeper);
}

/* leave(), and one line for a failed call. */
static int leave_with(struct session *session, int code, const char *what, char **reterr_text)
{
	bool in_time = leave(session);

	if (code >= 0)
		return 0;
	if (!in_time)
		*reterr_text = memory_format("cannot %s: the LTTng daemons did not answer within "
					     "%d s",
					     what, session->plan->timeout_s);
	else
		*reterr_text = memory_format("cannot %s: %s", what, lttng_strerror(code));
	return -EIO;
}

/* ---- Making it ---- */

static struct lttng_session_descriptor *describe(const struct session_plan *plan)
{
	switch (plan->mode) {
	case SESSION_SNAPSHOT:
		if (plan->url)
			return lttng_session_descriptor_snapshot_network_create(plan->name,
										plan->url, NULL);
		return lttng_session_descriptor_snapshot_local_create(plan->name, plan->folder);
	case SESSION_LIVE:
		return lttng_session_descriptor_live_network_create(plan->name, plan->url, NULL,
								    LIVE_US);
	case SESSION_RECORD:
		break;
	}
	if (plan->url)
		return lttng_session_descriptor_network_create(plan->name, plan->url, NULL);
	return lttng_session_descriptor_local_create(plan->name, plan->folder);
}

static int create(struct session *session)
{
	struct lttng_session_descriptor *descriptor = describe(session->plan);
	struct lttng_domain domain = {.type = LTTNG_DOMAIN_UST, .buf_type = LTTNG_BUFFER_PER_UID};
	int code;

	if (!descriptor)
		return -LTTNG_ERR_INVALID;
	code = -(int)lttng_create_session_ext(descriptor);
	lttng_session_descriptor_destroy(descriptor);
	if (code == -LTTNG_OK)
		code = 0;
	if (code < 0)
		return code;
	session->handle = lttng_create_handle(session->plan->name, &domain);
	return session->handle ? 0 : -LTTNG_ERR_NOMEM;
}

static int add_channel(struct session *session, const char *name, uint64_t size)
{
	const struct session_plan *plan = session->plan;
	struct lttng_domain domain = session->handle->domain;
	struct lttng_channel *channel = lttng_channel_create(&domain);
	int code;

	if (!channel)
		return -LTTNG_ERR_NOMEM;
	(void)snprintf(channel->name, sizeof(channel->name), "%s", name);
	/* -1: as the user's session is. */
	channel->attr.overwrite = session->joined ? -1 : plan->mode == SESSION_SNAPSHOT;
	channel->attr.subbuf_size = size;
	channel->attr.num_subbuf = plan->count;
	channel->attr.switch_timer_interval =
		!session->joined && plan->mode == SESSION_RECORD ? SWITCH_US : 0;
	channel->attr.read_timer_interval = 0;
	channel->attr.output = LTTNG_EVENT_MMAP;
	(void)lttng_channel_set_monitor_timer_interval(channel, MONITOR_US);
	code = lttng_enable_channel(session->handle, channel);
	session->channel = *channel;
	session->channel.attr.extended.ptr = NULL;
	lttng_channel_destroy(channel);
	return code;
}

static int add_contexts(struct session *session, const char *channel)
{
	static const enum lttng_event_context_type kinds[] = {LTTNG_EVENT_CONTEXT_VPID,
							      LTTNG_EVENT_CONTEXT_VTID};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct lttng_event_context context = {.ctx = kinds[i]};
		int code = lttng_add_context(session->handle, &context, NULL, channel);

		if (code < 0 && code != -LTTNG_ERR_UST_CONTEXT_EXIST)
			return code;
	}
	return 0;
}

/* `not`: patterns of what is left out. */
static int add_events(struct session *session, const char *channel, const char *pattern,
		      const char *const * not, int not_count)
{
	struct lttng_event *event = lttng_event_create();
	int code;

	if (!event)
		return -LTTNG_ERR_NOMEM;
	event->type = LTTNG_EVENT_TRACEPOINT;
	event->loglevel_type = LTTNG_EVENT_LOGLEVEL_ALL;
	(void)snprintf(event->name, sizeof(event->name), "%s", pattern);
	code = lttng_enable_event_with_exclusions(session->handle, event, channel, NULL, not_count,
						  (char **)not );
	lttng_event_destroy(event);
	return code;
}

static int add_all_events(struct session *session)
{
	int code = add_events(session, session->channel.name, PATTERN, NULL, 0);

	if (code != -LTTNG_ERR_UST_EVENT_ENABLED)
		return code;
	session->had_events = true;
	return 0;
}

/*
 * Of a flight recorder: the definitions have buffers of their own, where only definitions overwrite them.
 * Among the events they would be gone before a snapshot is taken, however lately they were repeated.
 */
static int add_both_channels(struct session *session)
{
	static const char *const definitions[] = {"slipstream:def_*", "slipstream:dump_*",
						  "slipstream:process_end"};
	int code = add_channel(session, FOLDER_DEFINITIONS, session->plan->definitions);

	if (code >= 0)
		code = add_contexts(session, FOLDER_DEFINITIONS);
	for (size_t i = 0; i < ARRAY_SIZE(definitions) && code >= 0; i++)
		code = add_events(session, FOLDER_DEFINITIONS, definitions[i], NULL, 0);
	if (code >= 0)
		code = add_channel(session, FOLDER_CHANNEL, session->plan->size);
	if (code >= 0)
		code = add_contexts(session, FOLDER_CHANNEL);
	if (code >= 0)
		code = add_events(session, FOLDER_CHANNEL, PATTERN, definitions,
				  ARRAY_SIZE(definitions));
	return code;
}

static int add_one_channel(struct session *session)
{
	int code = add_channel(session, FOLDER_CHANNEL, session->plan->size);

	if (code >= 0)
		code = add_contexts(session, FOLDER_CHANNEL);
	if (code >= 0)
		code = add_all_events(session);
	return code;
}

static struct lttng_condition *blocked_longer(uint64_t ns)
{
	struct lttng_event_rule *rule = lttng_event_rule_user_tracepoint_create();
	_cleanup_free_ char *filter = memory_format("blocked_ns > %llu", (unsigned long long)ns);
	struct lttng_condition *condition = NULL;

	if (rule &&
	    lttng_event_rule_user_tracepoint_set_name_pattern(rule, "slipstream:wait") ==
		    LTTNG_EVENT_RULE_STATUS_OK &&
	    lttng_event_rule_user_tracepoint_set_filter(rule, filter) == LTTNG_EVENT_RULE_STATUS_OK)
		condition = lttng_condition_event_rule_matches_create(rule);
	lttng_event_rule_destroy(rule);
	return condition;
}

/*
 * The daemon itself saves a snapshot when the first such event comes. Not for each of them: a program
 * that blocks a thousand times a second would have the disk full of the same buffers.
 */
static int arm(struct session *session)
{
	struct lttng_rate_policy *once = lttng_rate_policy_once_after_n_create(1);
	struct lttng_condition *condition = blocked_longer(session->plan->blocked_over_ns);
	struct lttng_action *action = lttng_action_snapshot_session_create();
	int code = -LTTNG_ERR_NOMEM;

	if (condition && action && once &&
	    lttng_action_snapshot_session_set_rate_policy(action, once) == LTTNG_ACTION_STATUS_OK &&
	    lttng_action_snapshot_session_set_session_name(action, session->plan->name) ==
		    LTTNG_ACTION_STATUS_OK)
		session->trigger = lttng_trigger_create(condition, action);
	if (session->trigger) {
		/* The daemon wants its own user there, and takes root for that one. */
		if (session->plan->keeper && !geteuid())
			(void)lttng_trigger_set_owner_uid(session->trigger, DAEMON_USER);
		code = -(int)lttng_register_trigger_with_automatic_name(session->trigger);
		code = code == -LTTNG_OK ? 0 : code;
	}
	lttng_condition_destroy(condition);
	lttng_action_destroy(action);
	lttng_rate_policy_destroy(once);
	return code;
}

static struct session *new_session(const struct session_plan *plan)
{
	struct session *session = memory_new(sizeof(*session));

	session->plan = plan;
	if (plan->keeper)
		session->socket = memory_format("%s/.lttng/client-lttng-sessiond", plan->home);
	return session;
}

int session_start(const struct session_plan *plan, struct session **ret_session, char **reterr_text)
{
	struct session *session = new_session(plan);
	const char *what = "make the recording session";
	int code;

	enter(session);
	code = create(session);
	if (code >= 0)
		code = plan->definitions ? add_both_channels(session) : add_one_channel(session);
	if (code >= 0 && plan->blocked_over_ns) {
		what = "watch for blocked calls";
		code = arm(session);
	}
	if (code >= 0) {
		what = "start the recording session";
		code = lttng_start_tracing(plan->name);
	}
	if (leave_with(session, code, what, reterr_text)) {
		session_end(session);
		return -EIO;
	}
	*ret_session = session;
	return 0;
}

/* ---- Taking part in the user's ---- */

/*
 * The consumer daemon adds up how much the count in each packet grew. Packets of a processor may come
 * with one that is a little smaller than the last (seen with 8 threads on 2 processors); it takes that
 * for an overflow of the counter and adds 2^63, in which the true sum is what is left.
 */
static uint64_t true_count(uint64_t count)
{
	return count & (UINT64_MAX >> 1);
}

static void add_loss(struct lttng_channel *channel, struct session_loss *loss)
{
	uint64_t count;

	if (!lttng_channel_get_discarded_event_count(channel, &count))
		loss->events += true_count(count);
	if (!lttng_channel_get_lost_packet_count(channel, &count))
		loss->packets += count;
}

/* What the channels of our events lost. */
static int count_loss(struct session *session, struct session_loss *ret_loss)
{
	struct lttng_channel *channels = NULL;
	int count = lttng_list_channels(session->handle, &channels);

	*ret_loss = (struct session_loss){0};
	for (int i = 0; i < count; i++)
		if (!session->joined || !strcmp(channels[i].name, session->channel.name))
			add_loss(&channels[i], ret_loss);
	free(channels);
	return count < 0 ? count : 0;
}

/* A session that was started once takes no further channel: then one that it has serves. */
static int find_channel(struct session *session)
{
	struct lttng_channel *channels = NULL;
	int count = lttng_list_channels(session->handle, &channels);

	if (count < 0 && count != -LTTNG_ERR_UST_CHAN_NOT_FOUND)
		return count;
	for (int i = 0; i < count; i++)
		if (channels[i].enabled &&
		    (!session->channel.name[0] || !strcmp(channels[i].name, FOLDER_CHANNEL)))
			(void)snprintf(session->channel.name, sizeof(session->channel.name), "%s",
				       channels[i].name);
	free(channels);
	return 0;
}

/* The buffers that the session's user space channels have: there can be one kind only. */
static int find_domain(struct session *session)
{
	struct lttng_domain *domains = NULL;
	struct lttng_domain domain = {.type = LTTNG_DOMAIN_UST, .buf_type = LTTNG_BUFFER_PER_UID};
	int count = lttng_list_domains(session->plan->name, &domains);

	for (int i = 0; i < count; i++)
		if (domains[i].type == LTTNG_DOMAIN_UST)
			domain.buf_type = domains[i].buf_type;
	free(domains);
	if (count < 0)
		return count;
	session->handle = lttng_create_handle(session->plan->name, &domain);
	return session->handle ? 0 : -LTTNG_ERR_NOMEM;
}

static int prepare_channel(struct session *session, char **ret_notice)
{
	int code = add_channel(session, FOLDER_CHANNEL, session->plan->size);

	if (code == -LTTNG_ERR_TRACE_ALREADY_STARTED) {
		session->channel.name[0] = '\0';
		code = find_channel(session);
		if (code >= 0 && !session->channel.name[0])
			return -LTTNG_ERR_UST_CHAN_NOT_FOUND;
	}
	if (code < 0 && code != -LTTNG_ERR_UST_CHAN_EXIST)
		return code;
	if (add_contexts(session, session->channel.name) < 0)
		*ret_notice = memory_format("session %s was started already: its channel %s takes "
					    "no context now; unless it has vpid and vtid, the "
					    "processes in it cannot be told apart",
					    session->plan->name, session->channel.name);
	return 0;
}

int session_join(const struct session_plan *plan, struct session **ret_session, char **ret_notice,
		 char **reterr_text)
{
	struct session *session = new_session(plan);
	_cleanup_free_ char *what = memory_format("join session %s", plan->name);
	int code;

	session->joined = true;
	*ret_notice = NULL;
	code = find_domain(session);
	if (code >= 0)
		code = prepare_channel(session, ret_notice);
	if (code >= 0)
		code = add_all_events(session);
	if (code >= 0)
		code = count_loss(session, &session->before);
	if (leave_with(session, code, what, reterr_text)) {
		session_end(session);
		return -EIO;
	}
	*ret_session = session;
	return 0;
}

/* ---- While it runs, and its end ---- */

int session_snapshot(struct session *session, char **reterr_text)
{
	int code;

	enter(session);
	code = lttng_snapshot_record(session->plan->name, NULL, 0);
	return leave_with(session, code, "save a snapshot", reterr_text);
}

void session_disarm(struct session *session)
{
	if (!session->trigger)
		return;
	enter(session);
	(void)lttng_unregister_trigger(session->trigger);
	(void)leave(session);
	lttng_trigger_destroy(session->trigger);
	session->trigger = NULL;
}

void session_rearm(struct session *session)
{
	session_disarm(session);
	enter(session);
	(void)arm(session);
	(void)leave(session);
}

int session_stop(struct session *session, struct session_loss *ret_loss, char **reterr_text)
{
	const char *what = "stop the recording session";
	int code = 0;

	*ret_loss = (struct session_loss){0};
	enter(session);
	if (session->joined) {
		if (!session->had_events)
			(void)lttng_disable_event(session->handle, PATTERN, session->channel.name);
	} else {
		code = lttng_stop_tracing(session->plan->name); /* and waits for the data */
	}
	if (code >= 0) {
		what = "count lost events";
		code = count_loss(session, ret_loss);
		ret_loss->events = true_count(ret_loss->events - session->before.events);
		ret_loss->packets -= session->before.packets;
	}
	return leave_with(session, code, what, reterr_text);
}

void session_end(struct session *session)
{
	if (!session)
		return;
	session_disarm(session);
	if (session->handle) {
		enter(session);
		if (!session->joined)
			(void)lttng_destroy_session(session->plan->name);
		(void)leave(session);
		lttng_destroy_handle(session->handle);
	}
	free(session->socket);
	free(session);
}
