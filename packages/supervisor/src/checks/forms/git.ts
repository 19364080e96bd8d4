import { formOf } from "@berth/protocol/form-of"
import {
  GitBundleQuery,
  GitCommitRequest,
  GitDiffQuery,
  GitLogQuery,
  GitQuery,
} from "@berth/protocol/git"

export const gitQuery = formOf(GitQuery)
export const gitDiffQuery = formOf(GitDiffQuery)
export const gitLogQuery = formOf(GitLogQuery)
export const gitBundleQuery = formOf(GitBundleQuery)
export const gitCommitRequest = formOf(GitCommitRequest)
