import { type DockerHarness, openHarness } from "./harness.ts"

/** The host's id of root inside, above the ids that other programs hand out. */
export const ROOT_ID = 1_700_000_000

/** Assigns these ids to a user in an /etc that only the engine sees: the host's own /etc stays as it is. */
const GIVE_IDS = [
  'chmod 711 "$0" && mkdir -p "$0/etc" "$0/etc-work"',
  'mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc,workdir=$0/etc-work" overlay /etc',
  `echo nobody:${ROOT_ID}:65536 | tee /etc/subuid > /etc/subgid`,
].join(" && ")

/** A harness whose engine has user namespaces. */
export const openHarnessWithUserNamespaces = (
  options: Pick<NonNullable<Parameters<typeof openHarness>[0]>, "networks" | "dataIn"> = {},
): Promise<DockerHarness> =>
  openHarness({ ...options, prepare: GIVE_IDS, flags: ["--userns-remap=nobody:nogroup"] })
