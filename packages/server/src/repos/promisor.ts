import { userInfo } from "node:os"
import { resolve } from "node:path"
import { homeOf } from "@berth/local/owned/account"
import { boundedGitEnv } from "./bounds.ts"
import { lastSetting, settingsIn } from "./settings.ts"

/** The remote from which a partial clone gets objects that it lacks. */
export interface Promisor {
  readonly remote: string
  readonly url: string
}

/** The remote's name in the lens, whatever the repo calls it. */
export const PROMISOR = "promisor"

/** Git's own transports. A program of somebody's choice (`ext::`, a helper on the path) is not among them. */
const PROTOCOLS = "https:http:ssh:git:file"

/** A server that does not answer for this long is given up. */
const STALL_S = 30

/**
 * The first remote that promises objects, from the output of `git config --null --get-regexp` for `remote.*` and
 * `extensions.*`.
 */
export const promisorIn = (listed: string, repo: string): Promisor | undefined => {
  const settings = settingsIn(listed)
  const promising = settings
    .map(({ key, value }) =>
      value === "true" ? /^remote\.(.+)\.promisor$/s.exec(key)?.[1] : undefined,
    )
    .find((name) => name !== undefined)
  const remote = promising ?? lastSetting(settings, "extensions.partialclone")
  const url = remote && lastSetting(settings, `remote.${remote}.url`)
  return remote && url ? { remote, url: absolute(url, repo) } : undefined
}

/**
 * The environment in which git in a lens fetches from the remote, as the repo's owner: with the owner's own credentials
 * and keys, and never with a prompt. The URL may hold a token, so it stands in no file that others of the owner's group
 * could read.
 */
export const promisorEnv = (
  { url }: Promisor,
  uid: number | undefined,
): Record<string, string> => ({
  ...boundedGitEnv({
    [`remote.${PROMISOR}.url`]: url,
    [`remote.${PROMISOR}.promisor`]: "true",
    [`remote.${PROMISOR}.partialCloneFilter`]: "blob:none",
    "core.hooksPath": "/dev/null",
    "gc.auto": "0",
    "maintenance.auto": "false",
  }),
  HOME: uid === undefined ? userInfo().homedir : homeOf(uid),
  GIT_ALLOW_PROTOCOL: PROTOCOLS,
  GIT_ASKPASS: "",
  SSH_ASKPASS_REQUIRE: "never",
  GCM_INTERACTIVE: "never",
  GIT_SSH_COMMAND: `ssh -o BatchMode=yes -o ConnectTimeout=${STALL_S} -o ServerAliveInterval=10 -o ServerAliveCountMax=3`,
  GIT_HTTP_LOW_SPEED_LIMIT: "1",
  GIT_HTTP_LOW_SPEED_TIME: String(STALL_S),
})

/** Git reads a relative path from the repo's own directory. */
const absolute = (url: string, repo: string): string =>
  url.startsWith("/") || /^[^/]+:/.test(url) ? url : resolve(repo, url)
