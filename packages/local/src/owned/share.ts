import { chmodSync, chownSync, statSync } from "node:fs"

/** Lets a group read a file of this process, or only its owner where there is no group. */
export const shareFile = (path: string, group: number | undefined): void => {
  const { uid, gid } = statSync(path)
  chmodSync(path, 0o600)
  if (group === undefined) return
  if (gid !== group) chownSync(path, uid, group)
  chmodSync(path, 0o640)
}

/** Lets a group pass through a directory, without listing it. */
export const shareDirectory = (path: string, group: number | undefined): void => {
  const { uid, gid, mode } = statSync(path)
  if (group === undefined || (mode & 0o001) !== 0) return
  if (gid !== group) chownSync(path, uid, group)
  chmodSync(path, (mode & 0o7700) | 0o010)
}
