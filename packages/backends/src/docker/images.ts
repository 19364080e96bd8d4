import type { IncomingMessage } from "node:http"
import { abortable } from "@berth/host/abortable"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"
import { type Engine, parseAnswer } from "./engine/engine.ts"

/** The images that sandboxes are made from. */
export interface Images {
  /** Resolves a name to its present digest. Pulls an image that the engine lacks; concurrent callers share one pull. */
  digestOf(reference: string, signal: AbortSignal): Promise<string>
}

export interface PullProgress {
  readonly image: string
  readonly bytesDone: number
  readonly bytesTotal: number
}

export type OnPull = (progress: PullProgress) => void

/** Enough for some gigabytes over a slow line. */
const PULL_DEADLINE_MS = 30 * 60_000
const MAX_LINE_LENGTH = 1024 * 1024

const ImageAnswer = z.object({ Id: z.string().regex(/^sha256:[0-9a-f]{64}$/) })

const PullLine = z.object({
  id: z.string().optional(),
  error: z.string().optional(),
  progressDetail: z
    .object({ current: z.number().optional(), total: z.number().optional() })
    .nullish(),
})

export const openImages = (engine: Engine, onPull: OnPull): Images => {
  const pulls = new Map<string, Promise<void>>()
  /** A pull goes on when its caller gives up: the next caller finds it further. */
  const pull = (reference: string): Promise<void> => {
    const pulling =
      pulls.get(reference) ??
      pullImage(engine, reference, onPull).finally(() => pulls.delete(reference))
    pulls.set(reference, pulling)
    return pulling
  }
  return {
    async digestOf(reference, signal) {
      const there = await findImage(engine, reference, signal)
      if (there !== undefined) return there
      await abortable(pull(reference), signal)
      const pulled = await findImage(engine, reference, signal)
      if (pulled !== undefined) return pulled
      throw unavailable(reference, "it was pulled, and is not there")
    },
  }
}

const findImage = async (
  engine: Engine,
  reference: string,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const request = { method: "GET", path: `/images/${reference}/json` } as const
  const answer = await engine.ask(request, [200, 404], signal)
  return answer.status === 404 ? undefined : parseAnswer(request, answer, ImageAnswer).Id
}

const pullImage = async (engine: Engine, reference: string, onPull: OnPull): Promise<void> => {
  const signal = timeoutSignal(PULL_DEADLINE_MS)
  const query = { fromImage: withTag(reference) }
  const request = { method: "POST", path: "/images/create", query } as const
  let stream: IncomingMessage
  try {
    stream = await engine.follow(request, signal)
  } catch (thrown) {
    if (!(thrown instanceof BerthError) || typeof thrown.details.status !== "number") throw thrown
    throw unavailable(reference, String(thrown.details.engineSaid), thrown)
  }
  // Progress by layer, as the engine reports it.
  const layers = new Map<string, { done: number; total: number }>()
  for await (const line of linesOf(stream)) {
    const { id, error, progressDetail } = PullLine.parse(JSON.parse(line))
    if (error !== undefined) throw unavailable(reference, error)
    const { current, total } = progressDetail ?? {}
    if (id === undefined || current === undefined || total === undefined) continue
    layers.set(id, { done: current, total })
    const all = [...layers.values()]
    const sum = (of: "done" | "total") => all.reduce((bytes, each) => bytes + each[of], 0)
    onPull({ image: reference, bytesDone: sum("done"), bytesTotal: sum("total") })
  }
}

/** Adds `latest` to a name without a tag: an engine would pull all tags. */
const withTag = (reference: string): string =>
  /[:@][^/]*$/.test(reference) ? reference : `${reference}:latest`

async function* linesOf(stream: IncomingMessage): AsyncGenerator<string> {
  let rest = ""
  for await (const chunk of stream.setEncoding("utf8")) {
    rest += chunk
    const lines = rest.split("\n")
    rest = lines.pop() ?? ""
    if (rest.length > MAX_LINE_LENGTH) throw new Error("a line without an end")
    yield* lines.filter((line) => line.trim() !== "")
  }
}

const unavailable = (image: string, engineSaid: string, cause?: unknown): BerthError =>
  new BerthError("backend.image_unavailable", `there is no image ${image}: ${engineSaid}`, {
    details: { image, engineSaid },
    cause,
  })
