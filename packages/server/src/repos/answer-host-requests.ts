import type { Socket } from "node:net"
import type { Readable } from "node:stream"
import { setTimeout as pause } from "node:timers/promises"
import type { HostAnswer, HostRequest } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Environment } from "@berth/protocol/workspace"
import type { Logger } from "../logging/logger.ts"
import { operation } from "../logging/operation.ts"
import type { Secrets } from "../logging/secrets.ts"
import { sendBundle } from "./bundle.ts"
import { fillCredential } from "./credentials.ts"
import { PackingPace } from "./packing-pace.ts"
import { sourceOf } from "./source.ts"

/** A repo of a workspace, as its plan has it. */
export interface WorkspaceRepo {
  /** The repo's name between server and sandbox. */
  readonly directory: string
  readonly url: string
  readonly ref?: string | undefined
}

export interface AnswerOptions {
  readonly sandbox: SandboxId
  readonly repos: readonly WorkspaceRepo[]
  /** The server's own environment, for the host's git. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Reads the keys of the workspace's agent; absent if it has none. */
  readonly readKeys?: () => Promise<Environment>
  /** Connects one of the ports of the host that the workspace names; absent if it names none. */
  readonly connectHostPort?: (
    port: number,
    openTunnel: HostCall["openTunnel"],
    signal: AbortSignal,
  ) => Promise<void>
  readonly secrets: Secrets
  readonly log: Logger
}

/** A host request of a sandbox, with the ways to answer it that carry more than a message. */
interface HostCall {
  readonly request: HostRequest
  readonly sendBundle: (body: Readable) => Promise<void>
  readonly openTunnel: () => Promise<Socket>
}

/**
 * Answers the host requests of a sandbox, from its workspace's repos, keys and ports of the host and nothing else. Each answer
 * is a line in the log.
 */
export const answerHostRequests = (options: AnswerOptions) => {
  const { sandbox, repos, log } = options
  const pace = new PackingPace()
  return (
    { request, sendBundle: send, openTunnel }: HostCall,
    signal: AbortSignal,
  ): Promise<HostAnswer> => {
    if (request.kind === "credential") {
      const { protocol, host, path } = request
      return operation(log, "credential.grant", { sandbox, protocol, host, path }, async () => {
        const urls = repos.map(({ url }) => url)
        return {
          kind: "credential",
          ...(await fillCredential(request, urls, { ...options, signal })),
        }
      })
    }
    if (request.kind === "keys") {
      return operation(log, "keys.grant", { sandbox }, async () => {
        return { kind: "keys", keys: (await options.readKeys?.()) ?? {} }
      })
    }
    if (request.kind === "host-port") return connected(options, request.port, openTunnel, signal)
    const { repo, ref, have, submodule } = request
    const named = { sandbox, repo, ref, submodule: submodule?.paths.join("/") }
    return operation(log, "repo.send", named, async (note) => {
      const path = pathOf(repos, repo, ref)
      await pause(pace.waitMs(performance.now()), undefined, { signal })
      const startedMs = performance.now()
      const sent = await sendBundle({ path, ref, have, submodule }, { send, signal }).finally(
        () => {
          const nowMs = performance.now()
          pace.spend(nowMs - startedMs, nowMs)
        },
      )
      const { commit, branch, isBundled: bundled, shallow, authorName, authorEmail } = sent
      const { url, absent } = sent
      note({ commit, bundled, absent })
      return {
        kind: "repo",
        commit,
        ...(branch !== undefined && { branch }),
        bundled,
        ...(shallow.length > 0 && { shallow: [...shallow] }),
        ...(authorName !== undefined && { authorName }),
        ...(authorEmail !== undefined && { authorEmail }),
        ...(url !== undefined && { url }),
        ...(absent !== undefined && { absent }),
      }
    })
  }
}

const connected = async (
  { connectHostPort }: AnswerOptions,
  port: number,
  openTunnel: HostCall["openTunnel"],
  signal: AbortSignal,
): Promise<HostAnswer> => {
  if (connectHostPort === undefined)
    throw new BerthError("host_port.refused", "the workspace names no port of the host")
  await connectHostPort(port, openTunnel, signal)
  return { kind: "host-port" }
}

/**
 * The path of a repo. Refuses any ref but the workspace's own: another may hold commits that the repo's owner never
 * meant to show.
 */
const pathOf = (
  repos: readonly WorkspaceRepo[],
  directory: string,
  ref: string | undefined,
): string => {
  const repo = repos.find((repo) => repo.directory === directory)
  const source = repo && sourceOf(repo.url)
  if (source?.kind !== "host" || repo?.ref !== ref)
    throw new BerthError("repo.not_of_workspace", "that is no repo of the host in this workspace", {
      details: { repo: directory, ref },
    })
  return source.path
}
