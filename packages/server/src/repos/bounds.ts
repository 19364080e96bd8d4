import { Transform } from "node:stream"
import { BerthError } from "@berth/protocol/errors"

/**
 * The limit on the address space of git on the host. A delta of a few kilobytes can stand for terabytes, and git asks
 * for the memory that a pack promises. A repo of ten million objects is packed within this.
 */
export const MAX_GIT_MEMORY_BYTES = 4 * 1024 ** 3

/** The limit on git's processor time. Packing ten million objects takes less; a hostile pack can ask for days. */
export const MAX_GIT_CPU_S = 900

/** Larger than the largest repos that people work in. */
export const MAX_BUNDLE_BYTES = 64 * 1024 ** 3

/** The niceness of packing: behind people and other sandboxes, which wait for less. */
export const PACKING_NICENESS = 10

/**
 * Settings that bound what git keeps in memory, over those of any repo: windows into packs instead of whole packs,
 * small caches, and one thread, since the host has other work, too. Large files are streamed and not compared.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  "core.bigFileThreshold": "32m",
  "core.packedGitWindowSize": "16m",
  "core.packedGitLimit": "256m",
  "core.deltaBaseCacheLimit": "32m",
  "pack.windowMemory": "64m",
  "pack.deltaCacheSize": "16m",
  "pack.threads": "1",
}

/** The settings, and further ones, as environment variables, which no file of a repo overrides. */
export const boundedGitEnv = (
  more: Readonly<Record<string, string>> = {},
): Record<string, string> => {
  const settings = Object.entries({ ...SETTINGS, ...more })
  return {
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], place) => [
        [`GIT_CONFIG_KEY_${place}`, key],
        [`GIT_CONFIG_VALUE_${place}`, value],
      ]),
    ),
  }
}

/** Passes a bundle on, up to its bound. */
export const boundBundle = (path: string, maxBytes: number): Transform => {
  let bytes = 0
  return new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length
      if (bytes <= maxBytes) return done(null, chunk)
      done(
        new BerthError(
          "repo.bundle_failed",
          "the repo on the host is larger than a bundle may be",
          {
            details: { path, maxBytes },
          },
        ),
      )
    },
  })
}
