/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_packets.c - the packets of a raw trace, read by libipt's packet decoder and printed in the
 * form of `ptmill dump`.
 *
 * The other side of tests/diff/t02_dump_libipt.py: it shares no code with the lexer that it checks.
 * After bytes that libipt rejects, and they get a line of their own, it goes on at the next PSB.
 * libipt hands out addresses as they stand in the packet; last-IP is kept here, as SDM vol. 3,
 * ch. Intel PT, "IP Compression" says.
 */
#include <intel-pt.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_tnt(const struct pt_packet_tnt *tnt)
{
	for (unsigned i = tnt->bit_size; i-- > 0;)
		(void)putchar((tnt->payload >> i & 1) != 0 ? '!' : '.');
}

static void print_ip(const struct pt_packet_ip *packet, uint64_t *last_ip)
{
	uint64_t ip = *last_ip;

	switch (packet->ipc) {
	case pt_ipc_suppressed:
		printf("0: ????????????????");
		return;
	case pt_ipc_update_16:
		ip = (ip >> 16 << 16) | packet->ip;
		break;
	case pt_ipc_update_32:
		ip = (ip >> 32 << 32) | packet->ip;
		break;
	case pt_ipc_update_48:
		ip = (ip >> 48 << 48) | packet->ip;
		break;
	case pt_ipc_sext_48:
		ip = packet->ip | ((packet->ip >> 47 & 1) != 0 ? UINT64_C(0xffff) << 48 : 0);
		break;
	case pt_ipc_full:
		ip = packet->ip;
		break;
	}
	printf("%x: %016" PRIx64, (unsigned)packet->ipc, ip);
	*last_ip = ip;
}

static void print_mode(const struct pt_packet_mode *mode)
{
	if (mode->leaf == pt_mol_exec) {
		const char *const size[] = {"16-bit", "64-bit", "32-bit", "reserved"};

		printf("mode.exec   %s", size[mode->bits.exec.csl | mode->bits.exec.csd << 1]);
	} else {
		const char *const state[] = {"commit", "intx", "abort", "intx, abort"};

		printf("mode.tsx    %s", state[mode->bits.tsx.intx | mode->bits.tsx.abrt << 1]);
	}
}

/* Packets that carry one number, or two. */
static void print_number(const struct pt_packet *packet)
{
	switch (packet->type) {
	case ppt_pip:
		printf("pip         %" PRIx64 "%s", packet->payload.pip.cr3,
		       packet->payload.pip.nr ? ", nr" : "");
		break;
	case ppt_vmcs:
		printf("vmcs        %" PRIx64, packet->payload.vmcs.base);
		break;
	case ppt_cbr:
		printf("cbr         %u", packet->payload.cbr.ratio);
		break;
	case ppt_tsc:
		printf("tsc         %" PRIx64, packet->payload.tsc.tsc);
		break;
	case ppt_tma:
		printf("tma         %x, %x", packet->payload.tma.ctc, packet->payload.tma.fc);
		break;
	case ppt_mtc:
		printf("mtc         %x", packet->payload.mtc.ctc);
		break;
	case ppt_cyc:
		printf("cyc         %" PRIx64, packet->payload.cyc.value);
		break;
	default:
		printf("mnt         %" PRIx64, packet->payload.mnt.payload);
		break;
	}
}

/* Power and PTWRITE packets.  Wake reasons: interrupt, store and autonomous are bits 0, 2 and 3. */
static void print_rest(const struct pt_packet *packet)
{
	const struct pt_packet_pwre *pwre = &packet->payload.pwre;
	const struct pt_packet_pwrx *pwrx = &packet->payload.pwrx;
	const struct pt_packet_ptw *ptw = &packet->payload.ptw;

	switch (packet->type) {
	case ppt_exstop:
		printf("exstop%s", packet->payload.exstop.ip ? "      ip" : "");
		break;
	case ppt_mwait:
		printf("mwait       %08" PRIx32 ", %02" PRIx32, packet->payload.mwait.hints,
		       packet->payload.mwait.ext);
		break;
	case ppt_pwre:
		printf("pwre        c%u.%u%s", pwre->state, pwre->sub_state,
		       pwre->hw ? ", hw" : "");
		break;
	case ppt_pwrx:
		printf("pwrx        last c%u, deepest c%u, wake %x", pwrx->last, pwrx->deepest,
		       (unsigned)(pwrx->interrupt | pwrx->store << 2 | pwrx->autonomous << 3));
		break;
	default:
		printf("ptw         %x: %0*" PRIx64 "%s", ptw->plc, ptw->plc == 0 ? 8 : 16,
		       ptw->payload, ptw->ip ? ", ip" : "");
		break;
	}
}

static void print_packet(uint64_t offset, const struct pt_packet *packet, uint64_t *last_ip)
{
	static const char *const names[] = {
		[ppt_pad] = "pad",
		[ppt_psb] = "psb",
		[ppt_psbend] = "psbend",
		[ppt_stop] = "stop",
		[ppt_ovf] = "ovf",
		[ppt_tnt_8] = "tnt.8       ",
		[ppt_tnt_64] = "tnt.64      ",
		[ppt_tip] = "tip         ",
		[ppt_tip_pge] = "tip.pge     ",
		[ppt_tip_pgd] = "tip.pgd     ",
		[ppt_fup] = "fup         ",
		[ppt_ptw] = NULL,
	};
	const char *name = packet->type <= ppt_ptw ? names[packet->type] : NULL;

	printf("%016" PRIx64 "  %s", offset, name != NULL ? name : "");
	switch (packet->type) {
	case ppt_psb:
		*last_ip = 0;
		break;
	case ppt_tnt_8:
	case ppt_tnt_64:
		print_tnt(&packet->payload.tnt);
		break;
	case ppt_tip:
	case ppt_tip_pge:
	case ppt_tip_pgd:
	case ppt_fup:
		print_ip(&packet->payload.ip, last_ip);
		break;
	case ppt_mode:
		print_mode(&packet->payload.mode);
		break;
	case ppt_pip:
	case ppt_vmcs:
	case ppt_cbr:
	case ppt_tsc:
	case ppt_tma:
	case ppt_mtc:
	case ppt_cyc:
	case ppt_mnt:
		print_number(packet);
		break;
	case ppt_exstop:
	case ppt_mwait:
	case ppt_pwre:
	case ppt_pwrx:
	case ppt_ptw:
		print_rest(packet);
		break;
	default:
		break;
	}
	(void)putchar('\n');
}

/* Bytes without packets, from @from to where the decoder is now: the next PSB, or the end. */
static void print_note(const char *name, uint64_t from, uint64_t to, const char *text)
{
	if (to > from)
		printf("%016" PRIx64 "  %-12s%" PRIu64 " bytes %s\n", from, name, to - from, text);
}

static int walk(struct pt_packet_decoder *decoder, uint64_t size)
{
	const char *name = "head", *text = "before the first psb";
	uint64_t from = 0, offset = 0, last_ip = 0;

	for (;;) {
		struct pt_packet packet;
		int status = pt_pkt_sync_forward(decoder);

		if (status == -pte_eos) {
			print_note(name, from, size, from == 0 ? "without a psb" : text);
			return 0;
		}
		if (status < 0)
			return status;
		(void)pt_pkt_get_offset(decoder, &offset);
		print_note(name, from, offset, text);
		do {
			(void)pt_pkt_get_offset(decoder, &offset);
			status = pt_pkt_next(decoder, &packet, sizeof(packet));
			if (status > 0)
				print_packet(offset, &packet, &last_ip);
		} while (status > 0);
		if (offset == size)
			return 0;
		name = status == -pte_eos ? "truncated" : "bad";
		text = "skipped";
		from = offset;
	}
}

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;

	*size = 0;
	if (f == NULL)
		return NULL;
	for (size_t n = 1; n > 0; *size += n) {
		uint8_t *more = realloc(data, *size + 65536);

		if (more == NULL)
			exit(1);
		data = more;
		n = fread(data + *size, 1, 65536, f);
	}
	(void)fclose(f);
	return data;
}

int main(int argc, char **argv)
{
	struct pt_config config;
	size_t size;
	uint8_t *data = argc == 2 ? read_file(argv[1], &size) : NULL;

	if (data == NULL) {
		(void)fprintf(stderr, "usage: ipt_packets TRACE (a file that can be read)\n");
		return 1;
	}
	if (size == 0)
		return 0;
	pt_config_init(&config);
	config.begin = data;
	config.end = data + size;

	struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(&config);
	int status = decoder != NULL ? walk(decoder, size) : -pte_nomem;

	pt_pkt_free_decoder(decoder);
	free(data);
	if (status < 0)
		(void)fprintf(stderr, "ipt_packets: %s\n", pt_errstr(pt_errcode(status)));
	return status < 0;
}
