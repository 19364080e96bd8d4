import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import { z } from "zod"
import { type Engine, parseAnswer } from "./engine.ts"
import { containerName, ours } from "./names.ts"
import { ContainerAnswer, type ListEntry } from "./observe.ts"

const ListAnswer = z.array(
  z.object({
    Id: z.string(),
    Names: z.array(z.string()).nullish(),
    State: z.string(),
    Labels: z.record(z.string(), z.string()).nullish(),
  }),
)

export interface Listed extends ListEntry {
  readonly names: readonly string[]
}

/** The engine's description of a container by name or id; undefined if there is none. */
export const inspectContainer = async (
  engine: Engine,
  name: string,
  signal: AbortSignal,
): Promise<ContainerAnswer | undefined> => {
  const request = { method: "GET", path: `/containers/${name}/json` } as const
  const answer = await engine.ask(request, [200, 404], signal)
  return answer.status === 404 ? undefined : parseAnswer(request, answer, ContainerAnswer)
}

export const inspectSandbox = (engine: Engine, sandbox: SandboxId, signal: AbortSignal) =>
  inspectContainer(engine, containerName(sandbox), signal)

/** Every container of an installation, whatever its state. */
export const listContainers = async (
  engine: Engine,
  installation: InstallationId,
  signal: AbortSignal,
): Promise<Listed[]> => {
  const query = { all: true, filters: { label: [ours(installation)] } }
  const request = { method: "GET", path: "/containers/json", query } as const
  const listed = await engine.read(request, ListAnswer, signal)
  return listed.map(({ Id, Names, State, Labels }) => ({
    engineId: Id,
    // Names in lists begin with a slash.
    names: (Names ?? []).map((name) => name.replace(/^\//, "")),
    state: State,
    labels: Labels ?? {},
  }))
}

/** The pause between two looks at a container that someone else removes. */
const GONE_POLL_MS = 20

/**
 * Removes a container by force, with its anonymous volumes. Succeeds if the container is gone, or waits for a removal
 * that is under way. Returns false if the engine did not have it.
 */
export const removeContainer = async (
  engine: Engine,
  engineId: string,
  signal: AbortSignal,
): Promise<boolean> => {
  const query = { force: true, v: true }
  const request = { method: "DELETE", path: `/containers/${engineId}`, query } as const
  const { status } = await engine.ask(request, [204, 404, 409], signal)
  if (status !== 409) return status === 204
  while ((await inspectContainer(engine, engineId, signal)) !== undefined) {
    signal.throwIfAborted()
    await new Promise((resolve) => setTimeout(resolve, GONE_POLL_MS))
  }
  return true
}
