import { isDeepStrictEqual } from "node:util"
import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"
import { type Engine, parseAnswer } from "./engine.ts"
import type { Labels } from "./names.ts"

export interface Volume {
  readonly name: string
  readonly labels: Labels
  /** Mount options for the local driver. */
  readonly options: Readonly<Record<string, string>>
}

const VolumeAnswer = z.object({
  Name: z.string(),
  Driver: z.string(),
  Mountpoint: z.string(),
  Labels: z.record(z.string(), z.string()).nullish(),
  Options: z.record(z.string(), z.string()).nullish(),
})
export type VolumeAnswer = z.infer<typeof VolumeAnswer>

const DRIVER = "local"

/**
 * Makes a volume, or takes the existing one if it is exactly that. Engines return an existing volume of the name,
 * whatever was asked for, so the answer is compared.
 */
export const ensureVolume = async (
  engine: Engine,
  volume: Volume,
  signal: AbortSignal,
): Promise<VolumeAnswer> => {
  const { name, labels, options } = volume
  const body = { Name: name, Driver: DRIVER, DriverOpts: options, Labels: labels }
  const request = { method: "POST", path: "/volumes/create", body } as const
  const made = await engine.read(request, VolumeAnswer, signal)
  const why = whyOther(made, volume)
  if (why === undefined) return made
  throw new BerthError("backend.volume_wrong", `the volume ${name} is a wrong one: ${why}`, {
    details: { volume: name, engineSaid: why, labels: made.Labels, options: made.Options },
  })
}

const whyOther = (found: VolumeAnswer, { labels, options }: Volume): string | undefined => {
  if (found.Driver !== DRIVER) return `its driver is ${found.Driver}`
  const own = Object.entries(labels).every(([label, value]) => found.Labels?.[label] === value)
  if (!own) return "its labels are not ours"
  return isDeepStrictEqual({ ...found.Options }, { ...options }) ? undefined : "its options differ"
}

/** The volume of this name; undefined if there is none. */
export const findVolume = async (
  engine: Engine,
  name: string,
  signal: AbortSignal,
): Promise<VolumeAnswer | undefined> => {
  const request = { method: "GET", path: `/volumes/${name}` } as const
  const answer = await engine.ask(request, [200, 404], signal)
  return answer.status === 404 ? undefined : parseAnswer(request, answer, VolumeAnswer)
}

export const listVolumes = async (
  engine: Engine,
  labels: readonly string[],
  signal: AbortSignal,
): Promise<VolumeAnswer[]> => {
  const query = { filters: { label: labels } }
  const request = { method: "GET", path: "/volumes", query } as const
  const schema = z.object({ Volumes: z.array(VolumeAnswer).nullish() })
  return (await engine.read(request, schema, signal)).Volumes ?? []
}

export const removeVolume = async (
  engine: Engine,
  name: string,
  signal: AbortSignal,
): Promise<void> => {
  await engine.ask({ method: "DELETE", path: `/volumes/${name}` }, [204, 404], signal)
}
