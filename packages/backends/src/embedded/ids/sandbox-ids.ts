import { openSpares } from "@berth/host/spares"
import type { IdRanges } from "./ranges.ts"
import { openUserNamespaceMaker, type UserNamespace } from "./user-namespace.ts"

/** The ids that a sandbox has on the host. */
export interface SandboxIds {
  /** The host's id of root inside: the range begins there. */
  readonly base: number
  /** A user namespace with these ids; undefined where the runtime makes it. */
  readonly userNamespace: Promise<UserNamespace | undefined>
}

export interface SandboxIdsOptions {
  /** The installation's range, which its files have on disk. */
  readonly onDisk: number
  readonly ranges: IdRanges
  /** Whether sandboxes can have ranges of their own. */
  readonly isMapped: boolean
  /** Whether the runtime can create a container in an existing user namespace. */
  readonly joinsUserNamespaces: boolean
}

export interface SandboxIdSource {
  /** Gives a range of its own if the sandbox wants one and one is left, else the installation's. */
  take(wantsOwn: boolean, signal: AbortSignal): SandboxIds
  close(): void
}

/** Keeps a spare user namespace ready at all times: making one takes three programs. */
export const openSandboxIds = (options: SandboxIdsOptions): SandboxIdSource => {
  const { onDisk, ranges, isMapped, joinsUserNamespaces } = options
  const makeUserNamespace = openUserNamespaceMaker()
  const idsFrom = (base: number, signal: AbortSignal): SandboxIds => {
    const userNamespace = joinsUserNamespaces
      ? makeUserNamespace(base, signal)
      : Promise.resolve(undefined)
    // The caller that takes the namespace gets the failure.
    userNamespace.catch(() => {})
    return { base, userNamespace }
  }
  const spares = openSpares<SandboxIds>(
    (signal) => idsFrom((isMapped ? ranges.take() : undefined) ?? onDisk, signal),
    ({ base, userNamespace }) => {
      ranges.free(base)
      void releaseNamespace(userNamespace)
    },
  )
  return {
    take: (wantsOwn, signal) =>
      wantsOwn || !isMapped ? spares.take(signal) : idsFrom(onDisk, signal),
    close: spares.close,
  }
}

/** Ends the process that holds a namespace; processes that have entered it stay there. */
export const releaseNamespace = async (made: SandboxIds["userNamespace"]): Promise<void> => {
  await made.then(
    (namespace) => namespace?.release(),
    () => {},
  )
}
