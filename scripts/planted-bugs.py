#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants bugs one at a time and shows that the test suite catches each.

The tree as git knows it (with uncommitted changes) is copied to build/planted and built there; each plant replaces one
piece of source, rebuilds, runs the tests, and is taken back.  A plant that no test catches, one whose text is no longer
in the source, and one that does not compile are failures.  First the suite must pass without any plant.

    scripts/planted-bugs.py              all of them
    scripts/planted-bugs.py seam ring    those whose name contains one of the words
    scripts/planted-bugs.py --list
    scripts/planted-bugs.py --check      only whether each plant still has its place in the source
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
WORK = TOP / "build" / "planted"

# name, file, what stands there, what is planted instead.
PLANTS = [
    ("seam-one-too-far", "src/flow/ipt_engine.c",
     "\t\tif (insn.ip == next->ip)\n\t\t\treturn leave_run(w);\n",
     "\t\tif (w->n > 0 && insn.ip == next->ip)\n\t\t\treturn leave_run(w);\n"),
    ("seam-not-taken-back", "src/flow/ipt_engine.c",
     "\tw->n = 0;\n\tw->emit->tally.gaps[PTM_GAP_SEAM]++;\n",
     "\t(void)leave_run(w);\n\tw->emit->tally.gaps[PTM_GAP_SEAM]++;\n"),
    ("seam-not-walked", "src/flow/ipt_engine.c",
     "w->frame->next != NULL && w->frame->next->on)", "false)"),
    ("seam-erratum-bdm70", "src/flow/frame.c",
     "\t\t\tplus.on &= pkt.kind != PTM_PKT_TIP_PGE;\n", ""),
    ("psb-decoded-through", "src/flow/frame.c",
     "\t\tsize_t end = found < seg->len ? found : seg->len;\n",
     "\t\tsize_t end = found < seg->len && found == 0 ? found : seg->len;\n"),
    ("run-not-checked", "src/flow/ipt_engine.c",
     "\tsame = check_run(w);\n", "\tsame = w->n;\n"),
    ("assumed-ip-lost", "src/flow/frame.c",
     "\t\tlx->last_ip = frame->assume->ip;\n", "\t\tlx->last_ip = 0;\n"),
    ("psb-first-of-run", "src/fmt/pt_scan.c",
     "\t\t\treturn end - PTM_PSB_SIZE;\n", "\t\t\treturn i;\n"),
    ("last-ip-kept-at-psb", "src/fmt/pt_lexer.c",
     "\tif (pkt->kind == PTM_PKT_PSB)\n\t\tlx->last_ip = 0;\n", ""),
    ("last-ip-sign-extension", "src/fmt/pt_lexer.c",
     "packet->ipbytes == 3 ? sext : raw", "packet->ipbytes == 7 ? sext : raw"),
    ("tnt-stop-bit", "src/fmt/pt_lexer.c",
     "(b) >= 64 ? 5", "(b) > 64 ? 5"),
    ("bip-as-tnt", "src/fmt/pt_lexer.c",
     "lx->block_item != 0 && (p[0] & 7) == 4", "lx->block_item != 0 && (p[0] & 7) == 5"),
    ("overflow-before-psb-forgotten", "src/flow/frame.c",
     "\t\tovf_pending = ovf_last && excess == 0;\n", "\t\tovf_pending = false;\n"),
    ("overflow-before-cut-forgotten", "src/pipeline/split.c",
     "\tPTM_TRY(ovf_before(split, job, &span, begin, &job->seg.ovf_pending, err));\n", ""),
    ("overflow-of-pipe-forgotten", "src/pipeline/window.c",
     "\twin->ovf_pending = ends_in_ovf(buf->data, end);\n", ""),
    ("gap-dropped", "src/flow/ipt_engine.c",
     "\tif (at == w->frame->len)\n\t\treturn 0;\n", "\treturn 0;\n"),
    ("padding-counted-twice", "src/flow/frame.c",
     "\t\t\ttally->bytes[PTM_BYTES_PADDING] += pkt.size;\n",
     "\t\t\ttally->bytes[PTM_BYTES_PADDING] += 2u * pkt.size;\n"),
    ("head-not-accounted", "src/flow/frame.c",
     "\temit->tally.bytes[PTM_BYTES_HEAD] += seg->head;\n", ""),
    ("runaway-not-bounded", "src/flow/ipt_engine.c",
     "\t\tif (w->n > RUN_MAX) {\n", "\t\tif (w->n > RUN_MAX && position(w) == 0) {\n"),
    ("digest-order", "src/base/digest.h",
     "\td->b = d->b * next->kn + next->b;\n", "\td->b = next->b * d->kn + d->b;\n"),
    ("step-over-event", "src/flow/emit.c",
     "\temit->events[emit->nevents++].step = (uint32_t)emit->nsteps;\n\temit->open = false;\n",
     "\temit->events[emit->nevents++].step = (uint32_t)emit->nsteps;\n"),
    ("merge-order", "src/pipeline/ring.c",
     "\tif (slot != NULL) {\n\t\tstatus = claim(ctx, &slot->result.err);\n",
     "\tif (slot != NULL) {\n\t\t(void)pthread_mutex_unlock(&ring->entry);\n\t\tsched_yield();\n"
     "\t\t(void)pthread_mutex_lock(&ring->entry);\n\t\tstatus = claim(ctx, &slot->result.err);\n"),
    ("chunk-reserve", "src/pipeline/ring.c",
     "ring->free_n > 1 ||", "ring->free_n > 0 ||"),
    ("chunk-of-younger-job", "src/pipeline/ring.c",
     "\tout->last = &out->filling->next;\n", ""),
    ("range-end", "src/pipeline/split.c",
     "\t\t\tif (from + psb < limit)\n", "\t\t\tif (from + psb <= limit)\n"),
    ("range-overlap", "src/pipeline/split.c",
     "#define OVERLAP 64u", "#define OVERLAP 8u"),
    ("pipe-overlap", "src/pipeline/window.c",
     "#define OVERLAP 64u", "#define OVERLAP 8u"),
    ("pipe-look-ahead", "src/pipeline/window.c",
     "\tPTM_TRY(copy_out(win, end, look, job, buf, err));\n",
     "\tPTM_TRY(copy_out(win, end, look / 256, job, buf, err));\n"),
    ("text-of-longer-step", "src/sink/text.c",
     "if (want > 0 && !ptm_lines_write(lines, rt->text, rt->ends[want - 1]))",
     "if (want > 0 && !ptm_lines_write(lines, rt->text, rt->ends[rt->n - 1]))"),
    ("block-not-joined", "src/sink/frames.c",
     "\tif (!ptm_block_continues(&reader->held, next))\n", "\tif (reader->held.n > 0)\n"),
    ("block-over-event", "src/sink/frames.c",
     "\t\t} else if (reader->has_held) {\n", "\t\t} else if (reader->has_held && head.kind == PTM_FRAME_MARK) {\n"),
    ("block-over-resync", "src/sink/blocks.h",
     "\t       next->flags == block->flags &&", "\t       "),
    ("iterator-drops-last-block", "src/sink/iter.c",
     "\t\t\tbatch = ptm_visit_last(&it->reader);\n", "\t\t\tbatch = NULL;\n"),
    ("code-of-other-space", "src/image/code.c",
     "\tif (code->used > code->limit)\n\t\tdrop_all(code);\n",
     "\tstatic const struct ptm_space *first;\n\n\tif (first == NULL || code->n == 0)\n\t\tfirst = space;\n"
     "\tspace = first;\n\tif (code->used > code->limit)\n\t\tdrop_all(code);\n"),
    ("space-not-entered", "src/flow/ipt_engine.c",
     "\t\t\tPTM_TRY(enter_space(w, true, ev.tsc));\n", "\t\t\t(void)0;\n"),
    ("file-shrinks-unnoticed", "src/pipeline/span.c",
     "\tif ((size_t)got < len)\n", "\tif (got < 0)\n"),
    ("block-digest-not-compared", "src/pipeline/span.c",
     "\t\tif (digest != wanted)\n", "\t\tif (digest != wanted && at == 0)\n"),
    ("last-block-not-compared", "src/pipeline/span.c",
     "\twhile (sums != NULL && span->checked < to) {\n",
     "\twhile (sums != NULL && span->checked < to && size - span->checked >= sums->size) {\n"),
    ("blocks-behind-range-not-compared", "src/pipeline/split.c",
     "\tPTM_TRY(ptm_span_check(span, end + PTM_SPLIT_LOOK, err));\n",
     "\tPTM_TRY(ptm_span_check(span, job->end, err));\n"),
    ("blocks-of-empty-range-not-compared", "src/pipeline/split.c",
     "\t\treturn ptm_span_check(&span, end + OVERLAP, err);\n", "\t\treturn 0;\n"),
    ("span-not-read-again", "src/pipeline/split.c",
     "\treturn back.begin == span->begin ? 0 : open_range(job, source, span->buf, span, err);\n",
     "\t(void)job;\n\treturn 0;\n"),
    ("cut-payload-unnoticed", "src/flow/frame.c",
     "\tif (seg->missing > 0)\n", "\tif (seg->missing > 0 && seg->len == 1)\n"),
    ("image-hides-wrong-way", "src/image/space.c",
     "static bool outranks(const struct sweep *sweep, size_t a, size_t b)\n{\n",
     "static bool outranks(const struct sweep *sweep, size_t a, size_t b)\n{\n\tsize_t t = a;\n\n\ta = b;\n\tb = t;\n"),
    ("timeline-off-by-one", "src/image/timeline.c",
     "tsc <= tsc", "tsc < tsc"),
    ("capture-digest-unchecked", "src/pipeline/run.c",
     "\t\tstatus = ptm_session_check_streams(run->session, err);\n", "\t\tstatus = 0;\n"),
    ("truth-digest-unchecked", "src/sink/verify.c",
     "\t\treturn ptm_session_check_truth(vs->session, i, err);\n", "\t\treturn 0;\n"),
    ("return-stack-at-psb", "src/record/encoder.c",
     "static void empty_stacks(struct ptm_enc *enc)\n{\n\tenc->sdm.n = 0;\n\tenc->ipt.n = 0;\n",
     "static void empty_stacks(struct ptm_enc *enc)\n{\n\t(void)enc;\n"),
    ("return-stack-depth", "src/record/encoder.c",
     "\tif (s->n < STACK_DEPTH)\n\t\ts->n++;\n", "\ts->n++;\n"),
    ("output-half-written", "src/os/out.c",
     "\t\t(void)unlink(out->tmp);\n", ""),
    ("quota-ignored", "src/os/topo.c",
     "\t\t\tplan->workers = plan->quota;\n", "\t\t\t(void)0;\n"),
    ("generation-freed-at-once", "src/flow/cache.c",
     "\t\t\tptm_rcu_defer(&old->rcu, gen_retire);\n", "\t\t\tgen_retire(&old->rcu);\n"),
    ("stack-of-old-generation", "src/flow/walk.c",
     "\tfor (unsigned i = 0; i < PTM_STACK + 2; i++) {\n\t\tuint32_t *id = held_id(w, i);\n",
     "\tfor (unsigned i = PTM_STACK; i < PTM_STACK + 2; i++) {\n\t\tuint32_t *id = held_id(w, i);\n"),
    ("front-of-old-generation", "src/flow/walk.c",
     "\tif (w->serial != ptm_gen_serial(gen))\n\t\tw->front_tag = TAG_NONE;\n", ""),
    ("front-matches-nothing", "src/flow/walk.c",
     "\tptm_walk_front(w, 0)->ip = 1;\n", ""),
    ("space-known-by-place", "src/image/space.c",
     "XXH3_128bits(image->map.data + piece->offset, (size_t)piece->len);",
     "XXH3_128bits(image->map.data, 0);"),
    ("piece-known-by-begin", "src/image/space.c",
     "\treturn (x->len > y->len) - (x->len < y->len);\n", "\treturn 0;\n"),
    ("loser-of-race-kept", "src/flow/cache.c",
     "\treturn id_of(gen, ptm_rcu_map_add_unique(gen->map, hash, match, &key, &gen->links[id]));\n",
     "\t(void)ptm_rcu_map_add_unique(gen->map, hash, match, &key, &gen->links[id]);\n\treturn id;\n"),
    ("cell-beyond-mapping", "src/image/code_map.h",
     " && (cell & 15) <= room;", " && room > 0;"),
    ("cell-of-other-place", "src/image/space.c",
     "\t*cells = image->cells + range->file_offset;\n", "\t*cells = image->cells;\n"),
    ("cell-displacement", "src/image/code_map.c",
     "\t\treturn is8 ? PTM_CELL_COND8 : PTM_CELL_COND32;\n", "\t\treturn PTM_CELL_COND8;\n"),
    ("cell-of-guess", "src/image/code_map.c",
     "\tif (insn->guessed)\n\t\treturn PTM_CELL_ODD;\n", ""),
    ("fast-call-to-next-pushed", "src/flow/node.c",
     "c->insn.klass == PTM_INSN_CALL && c->insn.target != c->ip + c->insn.len", "c->insn.klass == PTM_INSN_CALL"),
    ("fast-prefix-one-too-far", "src/flow/node.c",
     "\t\treturn c->ip == stop->ip;\n", "\t\treturn c->done.digest.n > 0 && c->done.last == stop->ip;\n"),
    ("fast-binds-missed", "src/flow/node.c",
     "\t\treturn c->done.digest.n > 0 && (1u << c->insn.binds & stop->binds) != 0;\n",
     "\t\treturn c->done.digest.n > 1 && (1u << c->insn.binds & stop->binds) != 0;\n"),
    ("fast-ptwrite-anywhere", "src/flow/fast_event.c",
     ".binds = ptw ? 1u << PTM_BINDS_PTWRITE : 0};", ".binds = 0};"),
    ("fast-pop-compressed-only", "src/flow/walk.c",
     "\tif (*klass == PTM_INSN_RET)\n\t\t(void)pop(w);\n", ""),
    ("fast-stack-of-65", "src/flow/walk.h",
     "#define PTM_STACK      64u ", "#define PTM_STACK      65u "),
    ("fast-stack-of-63", "src/flow/walk.c",
     "\tw->depth += w->depth < PTM_STACK;\n", "\tw->depth += w->depth < PTM_STACK - 1;\n"),
    ("fast-run-counted-at-overflow", "src/flow/fast_engine.c",
     "\tw->nbits = 0;\n\tPTM_TRY(ptm_fast_unbind(f));\n",
     "\tw->nbits = 0;\n\tif (w->on)\n\t\t(void)ptm_walk_lose(w, PTM_GAP_MISMATCH);\n\tPTM_TRY(ptm_fast_unbind(f));\n"),
    ("fast-taken-is-fall-through", "src/flow/walk.c",
     "taken ? node->target : node->next", "taken ? node->next : node->target"),
    ("fast-popped-not-truncated", "src/flow/walk.c",
     "node->ip & UINT32_MAX\n", "node->ip\n"),
    ("fast-runaway-early", "src/flow/walk.c",
     "return w->free_run + node->n > PTM_RUNAWAY + 1 ? run_away(w) : 0;",
     "return w->free_run + node->n > PTM_RUNAWAY ? run_away(w) : 0;"),
    ("fast-stack-kept-at-overflow", "src/flow/fast_engine.c",
     "\tgo_off(f);\n\tptm_walk_empty_stack(w);\n\tf->async = false;\n\tf->off_known = false;\n",
     "\tgo_off(f);\n\tf->async = false;\n\tf->off_known = false;\n"),
    ("fast-stack-kept-at-psb", "src/flow/walk.c",
     "\tptm_walk_stop(w);\n\tptm_walk_empty_stack(w);\n\tw->space = NULL;\n",
     "\tptm_walk_stop(w);\n\tif (gen != w->gen)\n\t\tptm_walk_empty_stack(w);\n\tw->space = gen != w->gen ? NULL : w->space;\n"),
    ("fast-bits-kept-at-overflow", "src/flow/walk.c",
     "\tw->probe = 0;\n\tw->nbits = 0;\n\tw->free_run = 0;\n", "\tw->probe = 0;\n\tw->free_run = 0;\n"),
    ("fast-pgd-at-far-only", "src/flow/fast_engine.c",
     "\tstatus = ptm_walk_end(w, &klass, &next);\n\tif (status != 0)\n\t\treturn status;\n",
     "\tstatus = ptm_walk_end(w, &klass, &next);\n\tif (status != 0)\n\t\treturn status;\n"
     "\tif (klass < PTM_INSN_FAR_CALL)\n\t\treturn ptm_walk_lost(w, PTM_GAP_MISMATCH);\n"),
    ("fast-resync-at-deferred-tip", "src/flow/fast_engine.c",
     "return pkt->has_ip && !full_tnt;", "return pkt->has_ip;"),
    ("fast-gap-not-accounted", "src/flow/fast_engine.c",
     "\tf->emit->tally.bytes[PTM_BYTES_SKIPPED] += f->gap.value;\n", ""),
    ("fast-seam-not-walked", "src/flow/fast_engine.c",
     "\t\t\tstatus = walk_seam(f);\n", "\t\t\tstatus = 0;\n"),
    ("fast-mode-not-applied-at-tip", "src/flow/fast_engine.c",
     "\tif (f->mode_pending && f->mode != before)\n\t\tPTM_TRY(go_to(f, pkt->ip));\n", ""),
    ("fast-stretch-not-taken-closely", "src/flow/fast_engine.c",
     "\tif (status == 0)\n\t\tf->closely = s->pos;\n",
     "\tif (status == 0)\n\t\tf->lx.pos = s->pos;\n"),
    ("fast-padding-of-stretch", "src/flow/fast_engine.c",
     "\tf->bytes[PTM_BYTES_PADDING] += s->pads;\n", ""),
    ("edge-pop-as-drop", "src/flow/loops_body.h",
     "state = *k->top-- & ~PTM_STATE_FREE;", "state = *k->top & ~PTM_STATE_FREE;"),
    ("edge-through-return", "src/flow/way.c",
     "\tif ((way->pop || way->drop) && way->npush > 0) {\n", "\tif ((way->pop || way->drop) && way->npush > 1) {\n"),
    ("edge-guard-ignored", "src/flow/edge.h",
     "return (uint64_t)(slot->guard ^ top) >> (slot->guard & 63) == 0;",
     "return ptm_slot_guarded(slot) == 0 || top != 1;"),
    ("edge-guard-not-popped", "src/flow/loops_body.h",
     "\tk->top -= ptm_slot_guarded(e);\n", ""),
    ("edge-rest-dropped", "src/flow/loops_body.h",
     "\t\tsym = left_of(k->key, rest);\n", "\t\tsym = (++k->item)->key;\n"),
    ("edge-deepest-half", "src/flow/edge.c",
     "(edge->deepest > 7 ? PTM_GUARD_DEEP : 0)", "0"),
    ("edge-rest-behind-pop", "src/flow/edge.c",
     "return ((bits & ((1u << left) - 1)) | 1u << left)", "return ((bits >> 1 & ((1u << left) - 1)) | 1u << left)"),
    ("edge-drop-ignored", "src/flow/loops_body.h",
     "\t\tk->top -= k->top != bottom_of(k);\n", "\t\tk->top -= 0;\n"),
    ("edge-push-order", "src/flow/loops_body.h",
     "\tmemcpy(k->top + 1, e->push, sizeof(e->push));\n",
     "\tmemcpy(k->top + 1, e->push, sizeof(e->push));\n"
     "\tif ((how & PTM_SLOT_NPUSH) > 1)\n"
     "\t\tk->top[1] = e->push[1], k->top[2] = e->push[0];\n"),
    ("edge-stack-of-65", "src/flow/loops_body.h",
     "UNLIKELY(k->top + PTM_SLOT_DEEPEST(e) > k->limit))\n", "UNLIKELY(k->top + PTM_SLOT_DEEPEST(e) > k->limit + 1))\n"),
    ("edge-deepest-ignored", "src/flow/loops_body.h",
     "\tif (UNLIKELY(k->top + PTM_EDGE_DEEP > k->limit) &&\n"
     "\t    UNLIKELY(k->top + PTM_SLOT_DEEPEST(e) > k->limit))\n"
     "\t\tlose_entries(k, k->top + PTM_SLOT_DEEPEST(e));\n",
     "\tif (UNLIKELY(k->top + (how & PTM_SLOT_NPUSH) > k->limit))\n"
     "\t\tlose_entries(k, k->top + (how & PTM_SLOT_NPUSH));\n"),
    ("edge-stack-not-moved-down", "src/flow/loops_body.h",
     "\t\tk->top -= down;\n\t\trise -= down;\n", "\t\tk->top -= down + 1;\n\t\trise -= down + 1;\n"),
    ("edge-key-without-symbol", "src/flow/edge.h",
     "return atomic_load_explicit(&slot->key, memory_order_acquire) == key;",
     "return (uint32_t)atomic_load_explicit(&slot->key, memory_order_acquire) == (uint32_t)key;"),
    ("edge-of-another-slot", "src/flow/loops_body.h",
     "\t\tif (!is_other(e, k->key, top))\n", "\t\tif (ptm_slot_has(e, k->key))\n"),
    ("edge-published-early", "src/flow/edge.c",
     "\tatomic_store_explicit(&to->key, key, memory_order_release);\n",
     "\tatomic_store_explicit(&to->key, key, memory_order_release);\n\tto->b = 0;\n"),
    ("tnt-gathered-backwards", "src/flow/loops_body.h",
     "_pext_u64(__builtin_bswap64(x), __builtin_bswap64(mask))", "_pext_u64(x, mask)"),
    ("tnt-escape-among-eight", "src/flow/tnts.h",
     "few = ptm_low_bits(PTM_BYTES(4), at) & ~below;", "few = ptm_low_bits(PTM_BYTES(2), at) & ~below;"),
    ("front-of-another-mode", "src/flow/walk.c",
     "tag = (uint32_t)w->index << 2 | (uint32_t)w->mode;", "tag = (uint32_t)w->index << 2;"),
    ("front-of-another-space", "src/flow/walk.c",
     "tag = (uint32_t)w->index << 2 | (uint32_t)w->mode;", "tag = (uint32_t)w->mode;"),
    ("symbol-of-padding", "src/flow/edge.c",
     "\t\tif (packet < 4 || (packet & 1) != 0)\n\t\t\treturn false;\n",
     "\t\tif (packet < 4 || (packet & 1) != 0)\n\t\t\tcontinue;\n"),
    ("symbol-end-lost", "src/flow/loops_body.h",
     "(struct ptm_item){.key = l->state};", "(struct ptm_item){.key = s->state};"),
    ("edge-mode-of-return", "src/flow/fast_engine.c",
     "w->on && w->nbits == 0 && !w->mixed &&", "w->on && w->nbits == 0 &&"),
    ("edge-symbols-of-old-generation", "src/flow/turbo.c",
     "\tif (turns != w->turns)\n\t\treturn w->failed ? -PTM_E_NOMEM : 0;\n"
     "\tload_lane(&t->lane, w);\n\tif (!walk(t, w) || turns != w->turns)\n",
     "\tload_lane(&t->lane, w);\n\tif (!walk(t, w) || turns > w->turns)\n"),
    ("edge-run-too-long", "src/flow/loops.h",
     "(PTM_RUNAWAY / PTM_EDGE_INSNS - 6)", "(PTM_RUNAWAY / PTM_EDGE_INSNS + 6)"),
    ("edge-symbol-split", "src/flow/loops_body.h",
     "\twhile (l->pending.n > PTM_EDGE_BITS) {\n", "\tif (l->pending.n > PTM_EDGE_BITS) {\n"),
    ("edge-last-ip-lost", "src/flow/turbo.c",
     "\tlx->last_ip = t->stretch.last_ip;\n", ""),
    ("space-not-in-key", "src/flow/cache.c",
     "\tconst struct key key = {gen, {ip, (uint32_t)index, mode}};\n",
     "\tindex = 0;\n\tconst struct key key = {gen, {ip, (uint32_t)index, mode}};\n"),
    ("counted-behind-the-event", "src/flow/walk.c",
     "\t\tPTM_TRY(tell(w, PTM_COUNT_RUN, node_at(w, w->at)->ip, prefix->digest.n));\n",
     "\t\tPTM_TRY(tell(w, PTM_COUNT_RUN, node_at(w, w->at)->ip, node_at(w, w->at)->n));\n"),
    ("count-forgotten-in-front", "src/flow/counts.c",
     "\t\tif (front->times > 0)\n\t\t\tPTM_TRY(append(counts, front, err));\n\t\t*front",
     "\t\t*front"),
    ("edge-counts-without-target", "src/flow/edge_counts.c",
     "return x->key == y->key && x->guard == y->guard && x->to == y->to;", "return x->key == y->key && x->guard == y->guard;"),
    ("edge-counts-of-another-space", "src/flow/edge_counts.c",
     "\tif (counts->gen != w->gen || counts->space != w->space) {\n", "\tif (counts->gen != w->gen) {\n"),
    ("edge-counts-dropped-when-full", "src/flow/edge_counts.c",
     "\t\t\tPTM_TRY(ptm_edge_counts_settle(counts, w->err));\n\t\t\tbegin(counts, w);\n",
     "\t\t\tmemset(counts->slot, 0, sizeof(*counts->slot) << counts->bits);\n\t\t\tcounts->used = 0;\n"),
    ("edge-counts-tally-overflows", "src/flow/edge_counts.c",
     "\t\tif ((i + 1) % ADDENDS == 0) {\n", "\t\tif ((i + 1) % (2 * ADDENDS) == 0) {\n"),
    ("edge-counts-return-within", "src/flow/edge_counts.c",
     "went == PTM_WAY_ON ? way.id : PTM_STATE_ID(e->edge.to)", "way.id"),
    ("edge-counts-of-another-generation", "src/flow/edge_counts.c",
     "\tif (counts->gen != w->gen || counts->space != w->space) {\n",
     "\tif (counts->gen == NULL || counts->space != w->space) {\n"),
    ("edge-counts-not-settled", "src/pipeline/run.c",
     "\t\tstatus = w->engine->ops->settle(w->engine, &err);\n", "\t\tstatus = 0;\n"),
    ("counts-of-one-worker", "src/pipeline/run.c",
     "\tfor (unsigned i = 1; i < n && status >= 0; i++)\n\t\tif (workers[i].counts",
     "\tfor (unsigned i = 2; i < n && status >= 0; i++)\n\t\tif (workers[i].counts"),
    ("compressed-return-not-counted", "src/flow/walk.c",
     "\treturn tell(w, PTM_COUNT_TARGET, ip, node_at(w, w->at)->ip);\n",
     "\treturn tell(w, PTM_COUNT_TARGET, ip, ptm_node_last(node_at(w, w->at)));\n"),
    ("block-over-other-count", "src/sink/hot.c",
     "return v[k].times == v[i].times && !taken[k]", "return v[k].times >= v[i].times && !taken[k]"),
    ("symbol-of-outer-function", "src/image/symbols.c",
     "\twhile (lo > 0 && v[lo - 1].end <= address)\n\t\tlo = v[lo - 1].outer;\n",
     "\tif (lo > 0 && v[lo - 1].end <= address)\n\t\tlo = 0;\n"),
]

# Quick tests first: most plants are caught by them.
TESTS = ["unit", "fuzz-regress", "cli", "golden|diff|stress"]


def run(argv, log, **kwargs):
    with open(log, "ab") as out:
        return subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
                              **kwargs).returncode


def copy_tree():
    """The files that git tracks or would track, as they are now."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=TOP, stdout=subprocess.PIPE,
                           check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source, target = TOP / name, WORK / "src" / name
        if not source.exists():
            continue
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def build(log):
    return run(["cmake", "--build", str(WORK / "build"), "-j", str(os.cpu_count())], log)


def test(log):
    """0 if all tests pass."""
    for labels in TESTS:
        if run(["ctest", "--test-dir", str(WORK / "build"), "-L", f"^({labels})$", "--stop-on-failure", "--timeout",
                "300", "--output-on-failure", "-j", str(os.cpu_count())], log) != 0:
            return 1
    return 0


def caught_by(log):
    found = re.findall(r"^\s*\d+ - (\S+) \(", log.read_text(errors="replace"), re.M)
    return found[-1] if found else "?"


def plant(name, path, old, new, log):
    """Returns what became of it: the name of a test, or a complaint in brackets."""
    source = WORK / "src" / path
    text = source.read_text()
    if text.count(old) != 1:
        return f"[the text to replace stands {text.count(old)} times in {path}]"
    source.write_text(text.replace(old, new))
    try:
        if build(log) != 0:
            return "[does not compile]"
        return caught_by(log) if test(log) != 0 else "[NOT CAUGHT]"
    finally:
        source.write_text(text)


def check():
    """Is the text of every plant where it should be?  Cheap, so it is an ordinary test."""
    lost = [p[0] for p in PLANTS if (TOP / p[1]).read_text().count(p[2]) != 1]
    for name in lost:
        print(f"{name}: the text to replace does not stand exactly once in the source: adapt the plant")
    print(f"{len(PLANTS) - len(lost)} passed, {len(lost)} failed")
    return 1 if lost else 0


def main():
    if "--check" in sys.argv:
        return check()
    words = [a for a in sys.argv[1:] if not a.startswith("-")]
    plants = [p for p in PLANTS if not words or any(w in p[0] for w in words)]
    if "--list" in sys.argv:
        for p in plants:
            print(p[0], p[1])
        return 0
    logs = WORK / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    copy_tree()
    base = logs / "none.log"
    base.unlink(missing_ok=True)
    if run(["cmake", "-S", str(WORK / "src"), "-B", str(WORK / "build"), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
            "-DPTM_BUILD_MAN=OFF"], base) != 0 or build(base) != 0 or test(base) != 0:
        print(f"The suite does not pass without a plant: see {base}")
        return 1
    failed = 0
    for name, path, old, new in plants:
        log = logs / f"{name}.log"
        log.unlink(missing_ok=True)
        began = time.monotonic()
        result = plant(name, path, old, new, log)
        failed += result.startswith("[")
        print(f"{name:32} {result}  ({time.monotonic() - began:.0f} s)", flush=True)
    build(base)
    print(f"{len(plants) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
