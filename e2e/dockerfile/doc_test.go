// Package dockerfile_test, behind the build tag kind, builds deploy/images/Dockerfile
// with a real engine and compares the images with what make images builds. Run it by
// make e2e-dockerfile, which builds what it needs.
package dockerfile_test
