// SPDX-License-Identifier: MIT
/*
 * Observe: cuStreamQuery and cuStreamSynchronize of the legacy stream while its work is on a substitute. Called by their wrappers.
 *
 * The answer is one about the substitute and about the blocking streams, as they were when the call came. Nothing is submitted for it but an event on the
 * substitute: a record on the legacy stream itself would hold later work of blocking streams, which the program's own call does not, and
 * a record on one of these would be found under way by who asks it next.
 */
#include "catalogue/catalogue.h"
#include "clock.h"
#include "driver/driver.h"
#include "legacy/internal.h"
#include "state/proof.h"

struct look {
	CUstream substitute;
	CUevent event; /* behind what it has, NULL: it has nothing */
	bool is_all;   /* the substitute is behind all blocking streams */
	CUresult asked;
};

static bool mark(struct look *look)
{
	look->event = NULL;
	if (QUIETLY(driver.cuEventCreate(&look->event, CU_EVENT_DISABLE_TIMING)) != CUDA_SUCCESS)
		return false;
	if (driver.cuEventRecord(look->event, look->substitute) == CUDA_SUCCESS)
		return true;
	(void)driver.cuEventDestroy_v2(look->event);
	look->event = NULL;
	return false;
}

/*
 * Under the lock. False: it is the driver's business, which the turn lets it be. Also while something captures the turn stays: a barrier on the legacy stream
 * is an operation, which holds later work of blocking streams behind all of them, and the program asks while one of these waits for another, perhaps.
 */
static bool look_at(struct legacy_context *context, const struct call *call,
		    struct legacy_pass *pass, bool waits, struct look *ret_look)
{
	if (legacy_is_dead(context, call) || !legacy_is_substitute(context) || legacy_is_refused())
		return false;
	if (state_is_doubted())
		goto native;
	*ret_look = (struct look){
		.substitute = context->substitute,
		.is_all = !context->dirty,
		.asked = CUDA_SUCCESS,
	};
	if (ret_look->is_all)
		return true;
	ret_look->asked = driver.cuStreamQuery(context->substitute);
	if (!waits || ret_look->asked != CUDA_ERROR_NOT_READY || mark(ret_look))
		return true;
native:
	(void)legacy_to_native(context, pass);
	return false;
}

/* The blocking streams first: their snapshot is the driver's, taken when it is called. The event has its own already. */
static CUresult wait_for_both(const struct look *look)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult result = driver.cuStreamSynchronize(CU_STREAM_LEGACY);

	if (!look->event)
		return result;
	if (result == CUDA_SUCCESS) {
		/* Somebody may capture by now, and this is no call that would have to know. */
		(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
		result = driver.cuEventSynchronize(look->event);
		(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
	}
	(void)driver.cuEventDestroy_v2(look->event);
	return result;
}

static CUresult answer(const struct look *look, bool waits)
{
	if (look->is_all)
		return waits ? driver.cuStreamSynchronize(look->substitute)
			     : driver.cuStreamQuery(look->substitute);
	if (waits)
		return wait_for_both(look);
	/* Not done, or failed: then it was not when the call came. Else only the driver knows of the others. */
	return look->asked == CUDA_SUCCESS ? driver.cuStreamQuery(CU_STREAM_LEGACY) : look->asked;
}

bool legacy_observe(struct call *call, CUresult *ret_result)
{
	bool waits = catalogue_rows[call->function].kind == CATALOGUE_KIND_WAIT, is_ours;
	struct legacy_pass pass = {0};
	struct legacy_context *context;
	struct look look;

	if (!legacy_active() || call->stream_kind != STREAM_LEGACY || !call->context ||
	    call->flags & CALL_CAPTURED)
		return false;
	context = legacy_of(call->context);
	if (!context || !legacy_is_substitute(context) || !legacy_lock(context))
		return false;
	pass.context = context;
	pass.tells = emit_traces_full();
	is_ours = look_at(context, call, &pass, waits, &look);
	legacy_unlock(context);
	legacy_tell(&pass);
	if (!is_ours)
		return false;
	call->entered = busy_driver(call->function, clock_ticks());
	*ret_result = answer(&look, waits);
	call->left = clock_ticks();
	return true;
}
