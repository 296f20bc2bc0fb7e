/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_info.c - ptmill info: what a run would work on, and where; nothing is decoded.
 */
#include "progress.h"
#include "run.h"
#include "signals.h"

#include <inttypes.h>
#include <stdio.h>

enum { KEY_TOPOLOGY = CLI_KEY_OWN, KEY_SYNTHETIC, KEY_XML, KEY_CPUSET };

struct info {
	struct cli_opts opts;
	bool topology;
	const char *synthetic;
	const char *xml;
	const char *cpuset;
};

static const struct argp_option options[] = {
	{"topology", KEY_TOPOLOGY, NULL, 0, "Print where the workers would run", 0},
	{"synthetic", KEY_SYNTHETIC, "DESC", 0,
	 "With --topology: plan for a machine in hwloc's notation, as in \"node:2 core:8 pu:2\"",
	 0},
	{"xml", KEY_XML, "FILE", 0, "With --topology: plan for a machine that hwloc saved as XML",
	 0},
	{"cpuset", KEY_CPUSET, "LIST", 0, "With --topology: plan for these CPUs, as in 0-3,8", 0},
	{0}};

static const struct argp_child children[] = {{&cli_input_argp, 0, NULL, 0},
					     {&cli_decode_argp, 0, NULL, 0},
					     {&cli_engine_argp, 0, NULL, 0},
					     {0}};

static error_t check(const struct argp_state *state, const struct info *cmd)
{
	bool has_machine = cmd->synthetic != NULL || cmd->xml != NULL || cmd->cpuset != NULL;

	if (has_machine && !cmd->topology)
		return cli_usage(state, "--synthetic, --xml and --cpuset need --topology");
	if (cmd->synthetic != NULL && cmd->xml != NULL)
		return cli_usage(state, "--synthetic and --xml contradict each other");
	if (cmd->opts.ninputs == 0 && cmd->opts.nimages == 0 && !cmd->topology)
		return cli_usage(state, "nothing to tell: name an INPUT, or give --topology");
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct info *cmd = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		cli_opts_init(state, &cmd->opts, 3);
		return 0;
	case KEY_TOPOLOGY:
		cmd->topology = true;
		return 0;
	case KEY_SYNTHETIC:
		cmd->synthetic = arg;
		return 0;
	case KEY_XML:
		cmd->xml = arg;
		return 0;
	case KEY_CPUSET:
		cmd->cpuset = arg;
		return 0;
	case ARGP_KEY_END:
		return check(state, cmd);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"[INPUT...]",
	"Print the streams of the inputs, the images that were given, and "
	"with --topology the placement "
	"of the workers.  The packets of the traces are read, but nothing is "
	"decoded.\v"
	"The share of an image is the part of the addresses in the packets "
	"that lie in it.\n\n" CLI_INPUT_HELP,
	children,
	NULL,
	NULL};

static void print_streams(const struct ptm_session *session)
{
	for (size_t i = 0; i < ptm_session_streams(session); i++) {
		struct ptm_stream_info s = ptm_session_stream(session, i);

		(void)printf("stream %s bytes ", s.name);
		/* A compressed or piped stream has a size only when it was read. */
		if (s.bytes > 0)
			(void)printf("%" PRIu64, s.bytes);
		else
			(void)printf("unknown");
		(void)printf("%s path %s\n", s.seekable ? "" : " sequential", s.path);
	}
}

/* Read the traces' addresses and print which images they need. */
static int print_images(struct ptm_session *session, const struct info *cmd, struct ptm_error *err)
{
	struct ptm_sink *sink = ptm_sink_preflight_create(session, NULL, err);
	struct ptm_run_options run_options = {.size = sizeof(run_options)};
	struct ptm_run_stats stats;
	struct cli_meter meter;
	int ret;

	if (sink == NULL)
		return -(int)err->code;
	cli_meter_init(&meter, &cmd->opts);
	run_options.progress = meter.is_on ? cli_meter_update : NULL;
	run_options.ctx = &meter;
	ret = ptm_session_run(session, sink, &run_options, &stats, err);
	if (ret >= 0)
		ret = ptm_sink_finish(sink, err);
	ptm_sink_destroy(sink);
	cli_meter_clear(&meter);
	return ret;
}

/* Returns the exit code; messages are printed. */
static int print_contents(const struct info *cmd)
{
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_session *session = ptm_session_create(&cmd->opts.config, &err);
	struct cli_signals *signals = NULL;
	int ret = -PTM_E_SYSTEM;
	int sig, code = 0;

	if (session == NULL)
		return cli_fail(&err);
	signals = cli_signals_create(session, NULL, &err);
	if (signals != NULL)
		ret = cli_session_fill(session, &cmd->opts, &err);
	if (ret >= 0) {
		cli_signals_arm(signals);
		print_streams(session);
		code = cli_flush();
	}
	if (ret >= 0 && code == 0)
		ret = print_images(session, cmd, &err);
	sig = cli_signals_destroy(signals);
	ptm_session_destroy(session);
	if (ret >= 0)
		return code;
	return sig != 0 && err.code == PTM_E_CANCELED ? cli_stopped(sig, NULL) : cli_fail(&err);
}

static int print_topology(const struct info *cmd)
{
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_plan_config config = {.size = sizeof(config),
					 .threads = cmd->opts.config.threads,
					 .bind = cmd->opts.config.bind,
					 .synthetic = cmd->synthetic,
					 .xml = cmd->xml,
					 .cpuset = cmd->cpuset};
	struct ptm_plan *plan = ptm_plan_create(&config, &err);
	unsigned quota;

	if (plan == NULL)
		return cli_fail(&err);
	quota = ptm_plan_quota(plan);
	(void)printf("topology %s\n", ptm_plan_is_this_machine(plan)
					      ? "this machine"
					      : "not this machine: nothing would be bound");
	(void)printf("nodes %u cores %u quota ", ptm_plan_nodes(plan), ptm_plan_cores(plan));
	if (quota > 0)
		(void)printf("%u", quota);
	else
		(void)printf("none");
	(void)printf(" workers %u bind %s\n", ptm_plan_workers(plan),
		     config.bind == PTM_BIND_AUTO ? "auto" : "none");
	for (unsigned i = 0; i < ptm_plan_workers(plan); i++) {
		struct ptm_worker_place place = ptm_plan_place(plan, i);

		(void)printf("worker %u cpu %u core %u node %u\n", i, place.cpu, place.core,
			     place.node);
	}
	ptm_plan_destroy(plan);
	return 0;
}

static int run(int argc, char **argv)
{
	struct info cmd = {.opts = {.inputs_optional = true}};
	int ret = cli_parse(&argp, argc, argv, 0, &cmd);

	if (ret == 0 && (cmd.opts.ninputs > 0 || cmd.opts.nimages > 0))
		ret = print_contents(&cmd);
	if (ret == 0 && cmd.topology)
		ret = print_topology(&cmd);
	cli_opts_fini(&cmd.opts);
	return ret;
}

const struct cli_command cli_info = {"info", "streams, images, placement of the workers", run};
