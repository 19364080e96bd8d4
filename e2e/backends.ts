import { requires } from "@berth/testing/requires"
import type { Drawers } from "@berth/testing/sampled"
import { useSharedEngine } from "./docker/engine.ts"

/** The backends that pass the suites of whole systems. */
export const BACKENDS = ["embedded", "docker"] as const

export type BackendName = (typeof BACKENDS)[number]

const NEEDS: Readonly<Record<BackendName, Parameters<typeof requires>>> = {
  embedded: ["root", "crunOrRunc", "conmon", "tini", "userNamespaces"],
  docker: ["root", "docker", "tini"],
}

/** Describes a suite once on each of these backends, which its title names. */
export const describeOn = (
  backends: readonly BackendName[],
  what: string,
  suite: (backend: BackendName) => void,
): void => {
  for (const name of backends)
    requires(...NEEDS[name]).describe(`${what}, ${name}`, () => suite(name))
}

/** The flags with which a server uses a backend. Docker's engine is the one that the tests of a run share. */
export const flagsOf = async (name: BackendName): Promise<readonly string[]> =>
  name === "docker" ? (await useSharedEngine()).flags : []

/** The choice of a backend, for a test that opens one itself. */
export const choiceOf = async (name: BackendName) =>
  name === "docker" ? (await useSharedEngine()).choice : ({ name } as const)

/** For `sampled` and `sampledCases`: the suites of both backends draw from their cases together. */
export const drawnOn = (by: BackendName): Drawers => ({ among: BACKENDS, by })
